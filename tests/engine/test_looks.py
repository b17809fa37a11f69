"""The jobs of a search: what is kept on the device between them, and what may be put off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cuprof.backends.registry import get_spec
from cuprof.core.records import DeviceFacts
from cuprof.engine.duel import Duel
from cuprof.engine.looks import FIRST, SECOND, Looks
from tests.engine.search_bench import COLD, SearchBench


@pytest.mark.parametrize(
    ("backend", "profiles", "is_kept"), [("cuda", False, True), ("cpu", False, False), ("cuda", True, False)]
)
def test_arrays_stay_on_a_device_between_jobs_unless_a_profiled_process_needs_room(
    backend: str, profiles: bool, is_kept: bool
) -> None:
    bench, device = SearchBench(), DeviceFacts(backend, 0, "it")
    trials = tuple(replace(trial, device=device) for trial in bench.trials[:3])
    (job,) = Looks(bench.prepared, trials, 1, profiles=profiles).make(trials, FIRST)
    assert job.is_block == is_kept
    if not profiles:
        duel = Duel(bench.prepared, trials, COLD, 1)
        assert duel.next_job().is_block == is_kept  # type: ignore[union-attr]


def test_where_the_host_is_timed_nothing_is_compiled_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.looks.get_spec", lambda name: replace(get_spec(name), builds_ahead=True))
    bench = SearchBench(trials=20)
    bench.run()
    assert {(job.least_built, job.ahead) for job in bench.jobs} == {(0, ())}


def test_isolated_trials_are_not_put_off_since_their_worker_ends(built_ahead: None) -> None:
    bench = SearchBench()
    looks = Looks(bench.prepared, bench.trials, 1)
    assert {job.least_built for job in looks.make(bench.trials[:2], FIRST)} == {2}
    assert {job.least_built for job in looks.make(bench.trials[:2], SECOND)} == {0}
    config = replace(bench.config, limits=replace(bench.config.limits, isolate=True))
    isolated = Looks(replace(bench.prepared, config=config), bench.trials, 1)
    assert {job.least_built for job in isolated.make(bench.trials[:2], FIRST)} == {0}
