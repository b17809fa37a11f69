"""A copy is whole, whatever goes on beside it, and nothing is left of one that failed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import FACTS, make_outcome, make_timing, make_trial

from cuprof.core.errors import CuprofError, StoreError
from cuprof.results.queries import query
from cuprof.store import backup
from cuprof.store.backup import back_up
from cuprof.store.schema import REVISION
from cuprof.store.store import Store

OLD = Path(__file__).parents[1] / "data" / "db"


@pytest.fixture
def filled(sqlite_url: str) -> str:
    with Store.open(sqlite_url) as store:
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, [make_trial()])
        store.record(sweep, make_outcome(make_trial(), make_timing(20)))
    return sqlite_url


def refusal(url: str, file: Path, **options: bool) -> str:
    before = sorted(file.parent.iterdir())
    with pytest.raises(CuprofError) as caught:
        back_up(url, file, **options)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert sorted(file.parent.iterdir()) == before
    return str(caught.value)


def left_in(folder: Path) -> list[str]:
    """Return the names of what a copy has left, besides the folder of the copied database."""
    return [path.name for path in folder.iterdir() if path.is_file() or path.name.startswith(".")]


def test_what_is_in_the_wal_file_is_in_the_copy(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "a copy.sqlite"
    with Store.open(filled) as store:  # open, so that the rows of the second sweep stay in the -wal file
        store.begin_sweep(FACTS)
        copy = back_up(filled, file)
    assert (copy.sweeps, copy.runs, copy.size_bytes) == (1, 1, file.stat().st_size)
    assert left_in(tmp_path) == ["a copy.sqlite"]
    file.chmod(0o400)
    assert len(query(f"sqlite:///{file}", "SELECT * FROM sample")) == len(query(filled, "SELECT * FROM sample"))


def test_a_sweep_writes_meanwhile(filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "PAGES_AT_ONCE", 1)
    begun, stop = threading.Event(), threading.Event()
    written = []

    def write() -> None:
        with Store.open(filled) as store:
            sweep = store.begin_sweep(FACTS)
            while not stop.is_set():
                trial = make_trial(n=2 + len(written))
                store.enlist(sweep, [trial])
                store.record(sweep, make_outcome(trial, make_timing(20)))
                written.append(trial)
                begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(100)
    runs = [back_up(filled, tmp_path / f"{number}.sqlite").runs for number in range(8)]
    stop.set()
    thread.join()
    for number, count in enumerate(runs):
        with closing(sqlite3.connect(tmp_path / f"{number}.sqlite")) as copied:
            assert copied.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert copied.execute("PRAGMA foreign_key_check").fetchall() == []
            rows = copied.execute("SELECT COUNT(*), COUNT(DISTINCT run_id) FROM timing").fetchone()
            assert copied.execute("SELECT COUNT(*) FROM run").fetchone() == (count,)
            assert rows[1] == count
    assert runs == sorted(runs)


def test_a_file_is_replaced_only_when_asked(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.sqlite"
    file.write_text("mine")
    assert "exists; name another file, or replace it with --force" in refusal(filled, file)
    assert file.read_text() == "mine"
    back_up(filled, file, overwrite=True)
    assert query(f"sqlite:///{file}", "SELECT * FROM run").shape[0] == 1


def test_what_cannot_be_copied_is_refused(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.sqlite"
    source = Path(filled.removeprefix("sqlite:///"))
    assert "is the database itself" in refusal(filled, source, overwrite=True)
    assert "there is no database" in refusal(f"sqlite:///{tmp_path}/none.sqlite", file)
    told = refusal("postgresql://me:hunter2@host/base", file)
    assert "copy it with pg_dump" in told
    assert "hunter2" not in told
    assert "is not a regular file" in refusal(filled, source.parent, overwrite=True)
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        back_up(filled, tmp_path / "none" / "copy.sqlite")
    (tmp_path / "empty.sqlite").touch()
    assert "is empty" in refusal(f"sqlite:///{tmp_path}/empty.sqlite", file)
    (tmp_path / "other.sqlite").write_bytes(b"no database" * 1000)
    assert "is damaged or no SQLite database" in refusal(f"sqlite:///{tmp_path}/other.sqlite", file)


def test_a_damaged_database_is_not_copied(filled: str, tmp_path: Path) -> None:
    source = Path(filled.removeprefix("sqlite:///"))
    data = bytearray(source.read_bytes())
    with closing(sqlite3.connect(source)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'variant'").fetchone()
    data[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    source.write_bytes(data)
    assert "damaged" in refusal(filled, tmp_path / "copy.sqlite")


def test_a_database_of_an_earlier_revision_is_copied_as_it_is(tmp_path: Path) -> None:
    shutil.copy(OLD / "0001.sqlite", tmp_path / "old.sqlite")
    back_up(f"sqlite:///{tmp_path}/old.sqlite", tmp_path / "copy.sqlite")
    assert REVISION != "0001"
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copied:
        assert copied.execute("SELECT version_num FROM cuprof_revision").fetchall() == [("0001",)]


FULL = """
import sys, resource
from pathlib import Path
from cuprof.core.errors import StoreError
from cuprof.store.backup import back_up
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    back_up(sys.argv[1], Path(sys.argv[2]))
except StoreError as error:
    print(error)
"""


def test_a_full_disk_leaves_nothing(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.sqlite"
    done = subprocess.run([sys.executable, "-c", FULL, filled, str(file)], capture_output=True, text=True, check=True)
    assert f"{file} cannot be written" in done.stdout
    assert left_in(tmp_path) == []


def test_an_interrupt_leaves_nothing(filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "check_pages", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        back_up(filled, tmp_path / "copy.sqlite")
    assert left_in(tmp_path) == []
