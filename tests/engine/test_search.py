"""What a search asks for, of answers that are made up."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.core.errors import ConfigError
from cuprof.core.records import Outcome, State, Unavailable
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.executor import Executor, Result
from cuprof.engine.search import make_clock
from cuprof.worker.messages import Job
from tests.engine.search_bench import BEST, NoNoise, SearchBench


def test_the_best_is_found_in_a_fraction_and_compared_at_the_end() -> None:
    bench = SearchBench(fraction=0.4)
    bench.run()
    (ending,) = bench.search.endings
    assert ending.best is not None
    assert ending.best.tunables == BEST
    assert len(bench.search.ladder.tried) == round(0.4 * len(bench.trials))
    *looks, duel = bench.jobs
    assert len(duel.trials) >= 3
    assert {job.measure.max_samples for job in looks} == {5, 60}, "few samples first, more for what is promising"
    assert bench.notes[-1].startswith("search: n=64: best is waiting · width=64, height=2, unroll=4 with 106.")
    assert "error rate 5 %" in bench.notes[-1]
    gain = r"search: its model expects trying the rest to gain (about \d+\.\d|less than 0\.1) %; "
    assert any(re.match(gain, note) for note in bench.notes)


def test_what_cannot_run_all_of_it_takes_no_part() -> None:
    bench = SearchBench(trials=6)
    bench.search, (first, second) = bench.open(executors=2), bench.executors
    second.devices = {"cpu": Unavailable("it is the first one's")}
    bench.run()
    assert set(bench.given_to) == {id(first)}
    assert len(bench.search.ladder.tried) == 6
    assert all(ending.best for ending in bench.search.endings)


def test_what_comes_next_is_built_while_a_batch_is_timed(built_ahead: None) -> None:
    bench = SearchBench(trials=60)
    bench.executors = bench.executors[:1]
    bench.run()
    assert len(bench.search.ladder.tried) == 60
    rated = [
        (job, building)
        for job, building in zip(bench.jobs[:-1], bench.building, strict=False)
        if job.measure.max_samples == 5
    ]
    assert [len(job.trials) for job, _ in rated][:3] == [4, 4, 4]
    known = {trial.identity for job, _ in rated for trial in job.trials}
    later = [building for _, building in rated[3:]]
    assert np.mean([bool(building) for building in later[:-2]]) > 0.8
    assert {identity for building in later for identity in building} <= known


def test_a_budget_of_time_holds_for_the_duel_too_whose_looks_share_what_is_left() -> None:
    bench = SearchBench(sizes=(64, 128, 256), budget="20s")
    bench.run()
    looks = [job for job in bench.jobs if job.measure.target < bench.config.measure.target]
    tried_s = bench.now_s - 0.1 * sum(len(job.trials) for job in looks)
    assert 17 <= tried_s <= 18.5, "the rest is the duels'"
    assert all(ending.best for ending in bench.search.endings)
    longest_s = [job.measure.max_seconds * len(job.trials) for job in looks]
    assert 0.1 <= longest_s[0] <= max(1 / 4, 0.05 * len(looks[0].trials))
    assert sum(longest_s) <= 3
    assert all(math.log2(job.measure.max_seconds).is_integer() for job in looks), "few methods"
    assert all(0 < job.measure.patience_seconds <= 4 * 10 * job.measure.max_seconds for job in looks)


@pytest.mark.parametrize(
    ("budget", "values_s", "again"),
    [("10s", (2.0, 1.0, 3.0), [1]), ("60s", (2.0, 1.0, 3.0), [1, 0, 2]), ("10s", (2e-4, 1e-4, 3e-4), [1, 0, 2])],
)
def test_only_what_ends_in_the_time_for_trying_is_looked_at_again(
    budget: str, values_s: Sequence[float], again: list[int]
) -> None:
    for bounds, expected in (({"budget": budget}, again), ({"trials": 6}, [1, 0, 2])):
        bench = SearchBench(**bounds)
        for index, value_s in enumerate(values_s):
            bench.search.strategy.tell(index, value_s, 1.0)
        bench.search.ladder.promoted.update((0, 1, 2))
        assert bench.search._find_fitting() == expected


def test_without_a_budget_of_time_a_duel_has_some_seconds_or_a_quarter_of_what_trying_took() -> None:
    bench = SearchBench(trials=6)
    assert bench.search._find_final_time() == 10
    bench.search._tried_s = 100
    assert bench.search._find_final_time() == 25


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_duel_has_its_part_of_what_those_before_it_left_and_of_the_stations_that_are_left(is_lost: bool) -> None:
    bench = SearchBench(sizes=(64, 128, 256, 512), budget="100s", trials=24)
    search = bench.search = bench.open(executors=2)
    ask, allowed_s = search.ask, dict[int, tuple[float, float]]()

    def watch(executor: Executor) -> Any:
        batch = ask(executor)
        for final in search._final_at.values():
            allowed_s.setdefault(id(final), (final.allowed_s, 100 - bench.now_s))
        return batch

    search.ask = watch  # type: ignore[method-assign]
    if is_lost:
        lost = bench.executors.pop()
        batch = search.ask(lost)
        assert batch is not None
        search.release(lost)
    bench.run()
    assert len(search.endings) == 4
    assert sum(not ending.best for ending in search.endings) == 0
    parts = [round(left_s / given_s) for given_s, left_s in allowed_s.values()]
    assert parts == ([4, 3, 2, 1] if is_lost else [2, 2, 1, 1])


def test_several_problems_share_the_budget_and_each_has_its_best() -> None:
    bench = SearchBench(sizes=(64, 128, 256), trials=120)
    bench.run()
    assert len(bench.search.ladder.tried) == 120
    assert {ending.problem.n: ending.best and ending.best.tunables for ending in bench.search.endings} == dict.fromkeys(
        (64, 128, 256), BEST
    )
    assert all(len({bench.by_identity[t.identity].problem for t in job.trials}) == 1 for job in bench.jobs)


def test_an_executor_that_is_lost_leaves_its_trials_and_its_final_comparison_to_others() -> None:
    bench = SearchBench(trials=6)
    lost = Executor(bench.executors[0].settings, bench.executors[0].limits)
    lost.devices = bench.executors[0].devices
    batch = bench.search.ask(lost)
    assert batch is not None
    assert batch.job is not None
    bench.search.release(lost)
    bench.run()
    assert batch.job.trials[0].identity in {trial.identity for trial in bench.jobs[0].trials}
    assert len(bench.search.ladder.tried) == 6

    bench = SearchBench(trials=6)
    while not bench.search._final_at:
        batch = bench.search.ask(lost)
        assert batch is not None
        assert batch.job is not None
        for each in batch.job.trials if not bench.search._final_at else ():
            bench.search.tell(lost, Result(batch, bench.answer(batch.job, each.identity)))
    bench.search.release(lost)
    bench.run()
    assert len(bench.search.endings) == 1


def test_batches_grow_with_what_is_known(built_ahead: None) -> None:
    bench = SearchBench(trials=60)
    bench.run()
    sizes = [len(job.trials) for job in bench.jobs if job.measure.max_samples == 5]
    assert sizes[0] == 4
    assert max(sizes) > 4


@pytest.mark.parametrize("cores", [64, 6])
def test_what_is_compiled_for_long_is_rated_later_and_the_cores_have_the_most_of_it(
    built_ahead: None, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    bench = SearchBench(trials=40)
    del bench.executors[1:]
    slow = {trial.identity for trial in bench.trials[::3]}
    most = 0

    def takes(identity: str) -> int:
        nonlocal most
        most = max(most, len(bench.executors[0].building))
        return 4 if identity in slow else 0

    bench.takes_builds = takes  # type: ignore[method-assign]
    bench.run()
    assert len(bench.search.ladder.tried) == 40
    assert most <= min(16, max(cores, 8)) + 4
    firsts = [trial.identity for job in bench.jobs if job.measure.max_samples == 5 for trial in job.trials]
    assert len(firsts) == len(set(firsts)) == 40


def test_what_is_compiled_still_when_the_budget_is_spent_is_left_out(built_ahead: None) -> None:
    bench = SearchBench(budget="4s")
    slow = {trial.identity for trial in bench.trials[::3]}
    bench.takes_builds = lambda identity: 10**6 if identity in slow else 0  # type: ignore[method-assign]
    outcomes = bench.run()
    assert not slow & {outcome.identity for outcome in outcomes}
    assert bench.search.endings[0].best is not None


def test_where_the_host_is_timed_nothing_is_compiled_meanwhile() -> None:
    bench = SearchBench(trials=20)
    assert not bench.executors[0].builds_ahead("cpu")
    batch = bench.search.ask(bench.executors[0])
    assert batch is not None
    assert batch.job is not None, "nothing is waited for"
    bench.executors[0]._begin_builds(batch.job)
    assert not bench.executors[0].building


@pytest.mark.parametrize(("better", "sizes"), [(1.0, range(4, 8)), (0.97, range(2, 4))])
def test_second_looks_share_a_job_without_what_is_promising_no_more(better: float, sizes: range) -> None:
    """All take the same time, or each takes less than the one before it, which is soon more than 5 % behind."""
    bench = SearchBench(trials=24, finalists=24)
    times: dict[str, float] = {}
    bench.random = NoNoise()
    bench.time_ns = lambda trial: times.setdefault(trial.identity, 1e6 * better ** len(times))  # type: ignore[method-assign]
    bench.run()
    again = [len(job.trials) for job in bench.jobs if job.measure.max_samples == 60]
    assert len(again) > 3
    assert {*again[:-1]} <= {*sizes}
    right = sum(not math.isnan(value) for value in bench.search.strategy.values.values())
    assert sum(again) == right or better < 1


@pytest.mark.parametrize("finalists", [2, 6])
def test_of_many_that_are_level_only_finalists_are_looked_at_again_and_compared(finalists: int) -> None:
    bench = SearchBench(trials=24, finalists=finalists)
    bench.random = NoNoise()
    bench.time_ns = lambda trial: 1e6  # type: ignore[method-assign]
    bench.run()
    assert sum(len(job.trials) for job in bench.jobs if job.measure.max_samples == 60) == finalists
    assert len(bench.jobs[-1].trials) == finalists


@pytest.mark.parametrize("error_rate", [1e-8, 0.5])
def test_each_error_rate_that_is_taken_has_a_duel(error_rate: float) -> None:
    bench = SearchBench(trials=12, error_rate=error_rate)
    bench.run()
    assert "error rate" in bench.notes[-1]
    with pytest.raises(ConfigError, match=r"search\.error_rate is"):
        replace(bench.config.search, error_rate=error_rate / 10 if error_rate < 0.1 else 0.6)


def test_candidates_that_fail_when_they_are_compared_are_told() -> None:
    bench = SearchBench(trials=12)
    answer = bench.answer

    def fail_in_duel(job: Job, identity: str) -> Outcome:
        is_look = job.measure.max_samples in (5, 60)
        return answer(job, identity) if is_look else Outcome(identity, State.CRASHED, "exit code 1", duration_ns=10**8)

    bench.answer = fail_in_duel  # type: ignore[method-assign]
    bench.run()
    assert bench.notes[-1] == "search: n=64: none of the 3 best gave a right result again when they were compared"


def test_what_gives_nothing_right_is_told() -> None:
    bench = SearchBench(trials=5)
    bench.answer = lambda job, identity: Outcome(identity, State.COMPILE_ERROR, "no")  # type: ignore[method-assign]
    bench.run()
    assert bench.notes[-1] == "search: n=64: none of 5 configurations tried gives a right result"
    assert not bench.search.endings


@pytest.mark.parametrize(
    ("bounds", "more_of"),
    [({"trials": 2}, "search.trials"), ({"budget": "0.5s", "trials": 9}, "search.budget or search.trials")],
)
def test_of_a_problem_that_nothing_was_tried_of_nothing_is_said_but_that(bounds: dict[str, Any], more_of: str) -> None:
    bench = SearchBench(sizes=(64, 128, 256, 512, 1024, 2048), **bounds)
    bench.run()
    tried = {bench.trials[index].problem for index in bench.search.ladder.tried}
    untried = {trial.problem for trial in bench.trials} - tried
    assert tried
    assert untried
    said = [f"search: {problem.label}: no configuration was tried; give a larger {more_of}" for problem in untried]
    assert {*said} < {*bench.notes}
    assert not any("right result" in note for note in bench.notes)


def test_the_clock_of_a_budget_stands_still_while_turns_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.search.time", SimpleNamespace(monotonic=lambda: 1000.0))
    locks = DeviceLocks(lambda text: None)
    clock = make_clock(locks, 2)
    before = clock()
    locks.waited_s += 100.0
    assert clock() - before == -50.0, "of two executors one waited"
