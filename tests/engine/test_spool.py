"""A sweep whose database's server is away goes on into a file, which the next one that reaches it hands in."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cuprof.config.model import StoreConfig
from cuprof.core.errors import StoreError
from cuprof.engine import merging
from cuprof.store.store import Store

SIZES = tuple(range(1, 9))
AWAY = "postgresql+psycopg://me:hunter2@127.0.0.1:1/none"


def count(store: Store, sql: str) -> Any:
    with store.engine.connect() as connection:
        return connection.execute(sa.text(sql)).scalar()


def test_what_is_measured_while_the_server_is_away_is_handed_in_once(
    bench: Any, make_listener: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    result, heard = bench.sweep("sound_first", store=StoreConfig(url=AWAY))
    assert result.exit_code == 0
    assert len(heard.outcomes) == 1
    (note,) = (text for text in heard.notes if "until the next sweep that reaches it" in text)
    assert "cannot be reached" in note
    assert "hunter2" not in "".join(heard.notes)
    folder = merging._find_folder(bench.project, AWAY)
    monkeypatch.setattr(merging, "_find_folder", lambda project, url: folder)
    with Store.open(f"sqlite:///{tmp_path / 'common.sqlite'}") as store:
        (file,) = folder.glob("*.sqlite")
        with merging._lock(file):  # its process goes on
            assert list(merging.hand_in(store, bench.project)) == []
        (told,) = merging.hand_in(store, bench.project)
        assert told.endswith(": 1")
        assert list(folder.iterdir()) == []
        assert list(merging.hand_in(store, bench.project)) == []
        assert count(store, "SELECT COUNT(*) FROM run WHERE state = 'ok'") == 1
        assert count(store, "SELECT state FROM sweep") == "finished"


def test_a_folder_that_cannot_be_written_is_told(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    spooled = merging._find_folder(bench.project, AWAY)
    spooled.parent.mkdir(parents=True)
    spooled.touch()
    with pytest.raises(StoreError, match=r"kept in .* either: File exists; name another"):
        bench.sweep("sound_first", store=StoreConfig(url=AWAY))
    spooled.unlink()
    file = spooled / "node-1.sqlite"
    file.with_suffix(".lock").mkdir(parents=True)
    file.touch()
    with Store.open(f"sqlite:///{tmp_path / 'common.sqlite'}") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_find_folder", lambda project, url: spooled)
        (told,) = merging.hand_in(store, bench.project)
    assert "node-1.sqlite could not be handed in" in told


def test_a_file_whose_process_was_killed_before_it_wrote_anything_is_removed(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_find_folder", lambda project, url: tmp_path)
    (tmp_path / "node-1.sqlite").touch()
    with Store.open(f"sqlite:///{tmp_path / 'elsewhere' / 'common.sqlite'}") as store:
        (told,) = merging.hand_in(store, bench.project)
    assert told.endswith(": 0")
    assert [path.name for path in tmp_path.glob("node-1*")] == []


def test_trials_that_another_process_measured_meanwhile_are_told(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = tmp_path / "common.sqlite"
    bench.sweep("sound_first", store=StoreConfig(url=f"sqlite:///{common}"))
    folder = tmp_path / "spool"
    folder.mkdir()
    shutil.copy(common, folder / "node-1.sqlite")
    with Store.open(f"sqlite:///{folder / 'node-1.sqlite'}") as spooled, spooled.engine.begin() as connection:
        connection.execute(sa.text("UPDATE run SET recorded_at = datetime(recorded_at, '+1 second') || '.000000'"))
    monkeypatch.setattr(merging, "_find_folder", lambda project, url: folder)
    with Store.open(f"sqlite:///{common}") as store:
        handed, both = list(merging.hand_in(store, bench.project))
        assert count(store, "SELECT COUNT(*) FROM run") == 2
    assert handed.endswith(": 1")
    assert "1 of its trials were measured in both: both runs are kept, and the sweep goes by the later one" in both


@pytest.fixture
def server() -> Iterator[Any]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "store"))
    from throwaway_postgres import Server, find_binaries

    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server programs (initdb, pg_ctl) on this machine")
    server = Server(binaries)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.mark.slow
def test_a_server_that_stops_in_the_middle_and_comes_back_has_every_trial_once(
    bench: Any, make_listener: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuprof.store.store.AWAY_SECONDS", 1.0)
    url = server.make_database("spooled")
    told: list[str] = []

    def stop_at_third(trial: Any) -> None:
        told.append(trial.identity)
        if len(told) == 3:
            server.halt()

    heard = make_listener(on_finished=stop_at_third)
    selection = {"problem": {"n": SIZES}, "store": StoreConfig(url=url)}
    result, _ = bench.sweep("sound_first", "sound_last", listener=heard, **selection)
    assert result.url.startswith("sqlite:///")
    assert sorted(told) == sorted(set(told))
    assert len(told) == 2 * len(SIZES)
    assert len(heard.outcomes) + heard.elsewhere == 2 * len(SIZES)
    server.resume()
    result, heard = bench.sweep("sound_first", "sound_last", **selection)
    assert not heard.outcomes
    with Store.open(url) as store:
        assert count(store, "SELECT COUNT(*) FROM sweep") == 1
        assert count(store, "SELECT state FROM sweep") == "finished"
        assert count(store, "SELECT COUNT(*) FROM run") == count(store, "SELECT COUNT(DISTINCT trial_id) FROM run")
        assert count(store, "SELECT COUNT(*) FROM sweep_trial WHERE run_id IS NOT NULL") == 2 * len(SIZES)
