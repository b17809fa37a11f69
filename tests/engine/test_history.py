"""What a search knows of its trials: what is stored, what is supposed, and what looks have told."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cuprof.backends.registry import get_spec, list_backends
from cuprof.backends.spec import UsualBlock
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts
from tests.engine.search_bench import BEST, SearchBench, Widths, earlier


@pytest.mark.parametrize("backend", list_backends())
def test_a_strategy_supposes_what_the_back_end_of_each_trial_lets_it(backend: str) -> None:
    bench = SearchBench()
    trials = [replace(trial, threads=64 + place) for place, trial in enumerate(bench.trials)]
    trials = [trials[0], *(replace(trial, backend=backend, device=None) for trial in trials[1:])]
    bench.trials = tuple(trials)
    supposed = bench.open().strategy.space.supposed
    usual = get_spec(backend).usual_block
    assert supposed.tolist() == [0, *(usual.suppose(trial.threads) for trial in trials[1:])]
    assert any(supposed) == (usual != UsualBlock())


def test_of_a_hosts_processor_nothing_is_supposed() -> None:
    bench = SearchBench()
    processor = DeviceFacts("opencl", 0, "a processor", details={"type": "CPU"})
    trials = [replace(trial, backend="opencl", device=processor, threads=1) for trial in bench.trials]
    bench.trials = tuple(trials)
    assert not bench.open().strategy.space.supposed.any()


def test_one_that_is_stored_is_one() -> None:
    bench = SearchBench(earlier=[earlier(SearchBench().trials[0], 5e5)], trials=4)
    assert bench.notes == ["search: 1 of 96 configurations is stored already"]


def test_what_is_stored_is_told_for_free() -> None:
    known = SearchBench().trials
    bench = SearchBench(earlier=[earlier(trial, 5e5) for trial in known[:50]], trials=20)
    assert bench.notes == ["search: 50 of 96 configurations are stored already"]
    bench.run()
    assert len(bench.search.ladder.tried) == 20
    stored = {trial.identity for trial in known[:50]}
    assert not {t.identity for job in bench.jobs[:-1] for t in job.trials if job.measure.max_samples == 5} & stored
    compared = sum(trial.identity in stored for trial in bench.jobs[-1].trials)
    more = f"; {compared} more, stored before, are in the last comparison" if compared else ""
    assert any(re.fullmatch(rf"search: tried 20 of 96 configurations in [\d.]+ s{more}", note) for note in bench.notes)


def test_the_baseline_is_timed_again_where_it_is_stored_beside_other_variants() -> None:
    bench = SearchBench(sizes=(64, 128), trials=8)
    plain = [trial for trial in bench.trials if trial.tunables.width == 16]
    slow, fast, other = [(plain[place], plain[place + len(plain) // 2]) for place in (0, 1, 2)]
    bench.trials = tuple(trial if trial in plain else replace(trial, variant="tuned") for trial in bench.trials)
    stored = [earlier(trial, ns) for pair, ns in ((slow, 9e5), (fast, 7e5), (other, 8e5)) for trial in pair]
    bench.search = bench.open(stored)
    bench.run()
    tried = bench.search.ladder.tried
    assert {bench.search.index[trial.identity] for trial in fast} <= tried, "the baseline's best of each problem"
    assert not {bench.search.index[trial.identity] for trial in (*slow, *other)} & tried
    assert len(tried) == 8, "they are part of the budget"
    done = [replace(run, sweep_id=7) for run in stored if run.identity == slow[0].identity]
    bench.search = bench.open([*stored, *done])
    bench.run()
    tried = bench.search.ladder.tried
    assert [bench.search.index[trial.identity] in tried for trial in fast] == [False, True], "once is enough"


def test_an_interrupted_search_goes_on_with_what_is_left_of_its_budget() -> None:
    known = SearchBench().trials
    done = [
        earlier(trial, 5e5, sweep_id=7, started_at=1e9 + place // 5, duration_ns=10**8 * (1 + place % 5))
        for place, trial in enumerate(known[:15])
    ]
    bench = SearchBench(earlier=done, trials=20)
    assert len(bench.search.ladder.tried) == 15
    bench.run()
    assert len(bench.search.ladder.tried) == 20
    assert SearchBench(earlier=done, budget="3s").search.spent_s == pytest.approx(1.5), "three jobs of half a second"


def test_the_order_of_a_sweep_says_nothing_of_costs() -> None:
    """All trials of its one job have begun at once: the last has lasted longest, whatever it costs."""
    done = [
        earlier(trial, 5e5, duration_ns=10**8 * (1 + place)) for place, trial in enumerate(SearchBench().trials[:20])
    ]
    search = SearchBench(earlier=done, trials=20).search
    assert list(search.strategy.costs.values()) == pytest.approx([0.1] * 20)


def test_times_of_another_problem_say_what_to_try_first() -> None:
    other = SearchBench(sizes=(512,))
    elsewhere = [earlier(trial, other.time_ns(trial)) for trial in other.trials]
    bench = SearchBench(earlier=elsewhere, trials=4)
    assert bench.notes == [
        "search: what 1 other problems, devices or versions say of 96 choices of tunables is where it starts, and part "
        "of what it expects"
    ]
    bench.run()
    assert bench.by_identity[bench.jobs[0].trials[0].identity].tunables == BEST


def test_of_other_problems_each_counts_once_however_often_it_was_looked_at() -> None:
    other = SearchBench(sizes=(512, 1024))
    looks = [
        earlier(trial, other.time_ns(trial), method=method, circumstances=(trial.problem.n,))
        for method in ("a few samples", "more", "side by side")
        for trial in other.trials
    ]
    (said,) = SearchBench(earlier=looks).notes
    assert "what 2 other problems, devices or versions say of 96 choices" in said
    alone = [replace(run, tunables=Point(width=7)) for run in looks[:1]]
    assert not SearchBench(earlier=alone).notes


def test_the_least_of_a_counter_and_of_its_product_with_time_are_found() -> None:
    for objective, best in (("a__b.sum", 16), ("a__b.sum*time", 32)):
        counting = Widths({})
        bench = SearchBench(counting=counting, objective=objective, fraction=0.4)
        bench.source.wait_us = lambda tune: 400 if tune.width == 16 else 100
        bench.run()
        (ending,) = bench.search.endings
        assert ending.best is not None
        assert ending.best.tunables.width == best
        assert len(counting.collected) == len(set(counting.collected)) > 20
        looked_at: dict[str, int] = {}
        for job, station in zip(bench.jobs, bench.given_to, strict=True):
            for trial in job.trials:
                looked_at.setdefault(trial.identity, station)
        numbers = [id(station) for station in bench.executors]
        assert counting.places == [numbers.index(looked_at[identity]) for identity in counting.collected]
        assert {*counting.places} == {0, 1}, "each card's are profiled on that card"
        assert f" and {objective} " in bench.notes[-1]
