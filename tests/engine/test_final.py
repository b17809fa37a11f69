"""The last comparison of a search, of samples that are made up: its time, its end, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuprof.config.model import SearchConfig
from cuprof.core.records import Outcome, Sample, State, Timing
from cuprof.engine.final import Final, keep_time
from cuprof.statistics.median import summarise
from cuprof.statistics.verdict import Verdict
from cuprof.worker.messages import JobTrial
from tests.engine.search_bench import COLD, SearchBench

NOISE = 0.006


def tell(duel: Final, trial: JobTrial, times_ns: Sequence[float], stopped_by: str) -> None:
    """Answer a look at one candidate with these samples."""
    samples = tuple(Sample(number, time_ns) for number, time_ns in enumerate(times_ns))
    timing = Timing(COLD, "m", samples, summarise(samples, 0.95), stopped_by, rotation="side by side")
    duel.tell(Outcome(trial.identity, State.OK, timings=(timing,)))


@pytest.mark.parametrize(("settings", "kept_s"), [({"budget": "10s"}, 1.5), ({"budget": "1h"}, 2 * 8 * 21), ({}, 0)])
def test_a_duel_has_its_part_of_the_budget_but_no_more_than_it_takes(settings: dict[str, Any], kept_s: float) -> None:
    config = replace(SearchBench().config, search=SearchConfig(name="surrogate", **settings))
    assert keep_time(config, 2) == pytest.approx(kept_s)


def fight_with_two_speeds(bench: SearchBench, allowed_s: float, stopped_by: str) -> tuple[Final, int]:
    """Return a duel that no number of samples decides, of looks of 3.6 s, and how many it had."""
    duel = Final(bench.prepared, bench.trials[:3], lambda: bench.now_s, allowed_s)
    count = 0
    while not duel.is_over:
        job = duel.next_job()
        count += 1
        bench.now_s += 3.6
        for place, each in enumerate(job.trials):
            tell(duel, each, [1e4 * (1 + 0.05 * ((one + place) // 3 % 2)) for one in range(60)], stopped_by)
    return duel, count


@pytest.mark.parametrize(("stopped_by", "is_cut"), [("time", True), ("interval", False), ("samples", False)])
def test_a_last_look_is_cut_where_its_time_ended_a_timing_and_not_where_more_time_would_not_help(
    stopped_by: str, is_cut: bool
) -> None:
    bench = SearchBench(budget="30s")
    duel, count = fight_with_two_speeds(bench, 20.0, stopped_by)
    assert count == 3
    assert duel.is_over
    said = duel.describe()
    assert "undecided against 2 more" in said
    assert ("the comparison had 10.8 s" in said) == is_cut


@pytest.mark.parametrize(
    ("known_s", "allowed_s", "compared", "said"),
    [
        ([0.3, 0.31, 0.32], 3.0, 3, ""),
        (
            [0.3, 0.31, 0.32],
            1.5,
            2,
            "the comparison had 0.5 s, none of it for 1 more, and more of a larger search.budget",
        ),
        (
            [5.0, 5.1, 9.0],
            1.5,
            2,
            "the comparison had 0.5 s, none of it for 1 more, and more of a larger search.budget",
        ),
        ([5.0, 9.0, 9.5], 1.5, 1, "compared with no other; search.budget had no time for that"),
        ([1e-6] * 10, 0.0, 10, ""),
        ([], 0.0, 10, ""),
    ],
)
def test_what_no_look_has_time_for_has_no_part_in_a_duel_and_that_is_said(
    known_s: Sequence[float], allowed_s: float, compared: int, said: str
) -> None:
    bench = SearchBench(budget="10s")
    trials = bench.trials[: len(known_s) or 10]
    duel = Final(bench.prepared, trials, lambda: bench.now_s, allowed_s, values=known_s)
    job = duel.next_job()
    assert [trial.identity for trial in job.trials] == [trial.identity for trial in trials[:compared]]
    assert job.measure.patience_seconds * compared <= 2 * max(allowed_s, 0.05 * 4 * compared)
    bench.now_s += 0.5
    for place, each in enumerate(job.trials):
        tell(duel, each, [1e8 * (1 + place) * (1 + 1e-4 * (one % 3)) for one in range(30)], "interval")
    assert duel.is_over
    assert duel.describe().endswith(said or "error rate 5 %")


@pytest.mark.parametrize("fails", [0, 1])
def test_who_fails_in_a_duel_is_told_and_whom_it_has_beaten_is_not_beaten_by_others(fails: int) -> None:
    """Three that nothing tells apart and one that takes twice as long; in the second look one of the three fails."""
    bench = SearchBench(budget="10s")
    duel = Final(bench.prepared, bench.trials[:4])
    places = {trial.identity: place for place, trial in enumerate(bench.trials[:4])}
    while not duel.is_over:
        job = duel.next_job()
        for each in job.trials:
            place = places[each.identity]
            if duel.looks > 1 and place == fails:
                duel.tell(Outcome(each.identity, State.CRASHED, "exit code 1"))
                continue
            time_ns = 1e4 * (1 + place // 3) * (1 + 1e-6 * place)
            tell(duel, each, [time_ns * (1 + 0.05 * ((one + place) // 3 % 2)) for one in range(60)], "samples")
    said = duel.describe()
    assert "undecided against 1 more" in said
    assert said.endswith("; 1 more gave no right result this time")
    assert ("faster than 1 in earlier comparisons" in said) == (fails != 0)


def test_a_duel_without_time_for_another_look_says_so_and_names_none_it_has_not_told() -> None:
    bench = SearchBench(budget="10s")
    for allowed_s, looks in ((100.0, 3), (4.0, 1)):
        duel, count = fight_with_two_speeds(bench, allowed_s, "time")
        assert duel.is_over
        said = duel.describe()
        assert count == looks
        assert "undecided against 2 more" in said
        assert ("the comparison had 3.6 s, and more of a larger search.budget" in said) == (looks == 1)
    duel.settings = SearchBench(trials=6).config.search
    assert duel.describe().endswith("the comparison had 3.6 s")


def test_of_four_within_three_thousandths_the_best_wins_or_is_called_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.final.is_host", lambda device: False)  # there a place in memory counts as well
    bench, right, names = SearchBench(), 0, []
    for seed in range(30):
        random = np.random.default_rng(seed)
        medians = dict(
            zip(
                [trial.identity for trial in bench.trials[:5]],
                random.permutation([1e4, 1.001e4, 1.002e4, 1.003e4, 1.03e4]),
                strict=True,
            )
        )
        duel = Final(bench.prepared, bench.trials[:5])
        while not duel.is_over:
            job = duel.next_job()
            count = min(job.measure.max_samples, int((1.25 * 1.96 * NOISE / job.measure.target) ** 2))
            drift = 1 + 0.004 * np.sin(np.arange(count) / 9)
            for each in job.trials:
                outliers = 0.05 * (random.random(count) < 0.03)
                times = medians[each.identity] * drift * (np.exp(NOISE * random.standard_normal(count)) + outliers)
                tell(duel, each, times.tolist(), "target")
        assert duel.best is not None
        best = min(medians, key=medians.__getitem__)
        right += best in {duel.best.identity, *duel.standing.list_judged(Verdict.SAME)}
        names.append(duel.describe())
    assert right >= 29, (right, names)
    assert "level with unroll=1; unroll=4; height=2, unroll=1 (within 1 %), faster than 1; error rate 5 %" in names[0]
