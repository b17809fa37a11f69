"""What a dry run says of trials by what is stored of them, before and after they have been run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cuprof.config.model import NcuConfig, StoreConfig
from cuprof.core.records import State, Trial
from cuprof.engine.preview import preview
from cuprof.store.store import Store
from tests.engine.conftest import Bench, Listener

SOUND, WRONG = "sound_first", "wrong"


@pytest.fixture(autouse=True)
def counters_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU's trials have counters; nothing is profiled here."""
    monkeypatch.setattr("cuprof.engine.profiling.BACKENDS", ("cpu",))


def states(bench: Bench, **changes: str) -> tuple[list[str], list[str]]:
    """Return the states of the two trials by a sweep's preview and by a collection's."""
    config = replace(bench.config(SOUND, WRONG, **changes), ncu=NcuConfig(metrics=("cycles",)))
    previews = preview(config, bench.project), preview(config, bench.project, profiling=True)
    return tuple([row.state for row in each.rows] for each in previews)  # type: ignore[return-value]


def test_without_a_database_all_is_missing_and_none_is_made(bench: Bench) -> None:
    assert states(bench) == (["missing", "missing"], ["missing", "missing"])
    assert not bench.database.exists()


def test_what_is_stored_is_told_and_what_is_wrong_is_not_profiled(bench: Bench) -> None:
    bench.sweep(SOUND, WRONG)
    assert states(bench) == (["stored", "stored"], ["missing", "skipped"])
    assert states(bench, retry="failed") == (["stored", "missing"], ["missing", "missing"]), "it is checked again first"


def test_what_could_never_be_run_is_done_before_it_is_profiled(bench: Bench) -> None:
    elsewhere = Listener(on_finished=(seen := list[Trial]()).append)
    url = f"sqlite:///{bench.project.root / 'elsewhere.sqlite'}"
    _, heard = bench.sweep(WRONG, listener=elsewhere, store=StoreConfig(url))
    result, _ = bench.sweep(SOUND)
    with Store.open(bench.project.database_url) as store:
        store.enlist(result.sweep_id, seen)
        store.record(result.sweep_id, replace(heard.of(WRONG), state=State.SKIPPED, message="its device was lost"))
    assert states(bench) == (["stored", "missing"], ["missing", "missing"])
