"""The median's interval: exact against the binomial distribution, and its coverage simulated."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from cuprof.core.records import Sample
from cuprof.statistics.median import (
    TICK_ERROR,
    interval_rank,
    is_mere_range,
    least_count,
    locate_median,
    range_level,
    summarise,
)

CONFIDENCES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def samples(*durations: float, excluded: tuple[int, ...] = ()) -> list[Sample]:
    return [
        Sample(number, duration, excluded="slow" if number in excluded else "")
        for number, duration in enumerate(durations)
    ]


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_the_rank_is_the_largest_that_keeps_the_confidence(confidence: float) -> None:
    for count in (*range(1, 80), 100, 137, 500, 1000, 2000, 5000):
        rank = interval_rank(count, confidence)
        coverage = 1 - 2 * stats.binom.cdf(rank, count, 0.5)
        next_coverage = 1 - 2 * stats.binom.cdf(rank + 1, count, 0.5)
        if count >= least_count(confidence):
            assert coverage >= confidence - 1e-9, (count, rank)
            # The next narrower interval no longer suffices, or there is none.
            assert next_coverage < confidence or 2 * (rank + 1) >= count, (count, rank)
        else:
            assert rank == 0
        assert 2 * rank <= count - 1


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_the_least_count_is_where_the_whole_range_suffices(confidence: float) -> None:
    count = least_count(confidence)
    assert 1 - 2 * 0.5**count >= confidence
    assert 1 - 2 * 0.5 ** (count - 1) < confidence


def test_known_ranks() -> None:
    # The tables for the sign test's interval at 95 %: n = 6, 9, 12, 20, 100 begin at the 1st, 2nd, 3rd, 6th, 40th.
    assert [interval_rank(count, 0.95) + 1 for count in (6, 9, 12, 20, 100)] == [1, 2, 3, 6, 40]


@pytest.mark.parametrize("distribution", ["lognormal", "exponential", "standard_cauchy"])
@pytest.mark.parametrize(("count", "confidence"), [(7, 0.95), (20, 0.95), (55, 0.9)])
def test_simulated_coverage(distribution: str, count: int, confidence: float) -> None:
    drawn = getattr(np.random.default_rng(1), distribution)(size=(4000, count))
    truth = {"lognormal": 1.0, "exponential": np.log(2), "standard_cauchy": 0.0}[distribution]
    covered = 0
    for row in np.sort(drawn, axis=1):
        _, low, high = locate_median(row, confidence)
        covered += low <= truth <= high
    promised = 1 - 2 * stats.binom.cdf(interval_rank(count, confidence), count, 0.5)
    assert promised >= confidence
    assert covered / 4000 == pytest.approx(promised, abs=4 * np.sqrt(promised * (1 - promised) / 4000))


def test_a_summary_describes_what_is_not_excluded() -> None:
    found = summarise(samples(5.0, 1.0, 900.0, 3.0, 2.0, 4.0, 6.0, excluded=(2,)))
    assert (found.count, found.excluded) == (6, 1)
    assert (found.median_ns, found.min_ns, found.max_ns, found.mean_ns) == (3.5, 1.0, 6.0, 3.5)
    assert (found.low_ns, found.high_ns, found.confidence) == (1.0, 6.0, 0.95)
    assert (found.q1_ns, found.q3_ns) == (2.25, 4.75)
    assert found.stdev_ns == pytest.approx(np.std([1, 2, 3, 4, 5, 6], ddof=1))


def test_one_sample_has_no_spread() -> None:
    found = summarise(samples(7.0))
    assert (found.median_ns, found.low_ns, found.high_ns, found.stdev_ns) == (7.0, 7.0, 7.0, 0.0)


@pytest.mark.parametrize(("count", "level"), [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.95), (20, 0.95)])
def test_samples_too_few_for_the_level_have_their_range_and_the_level_that_it_has(count: int, level: float) -> None:
    found = summarise(samples(*range(1, count + 1)), 0.95)
    assert found.confidence == level
    assert is_mere_range(found.count, found.confidence) is is_mere_range(found.count, 0.95) is (count < 6)
    if count < 6:
        assert (found.low_ns, found.high_ns) == (1.0, float(count))


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_the_level_of_a_range_is_how_often_it_holds_the_median(count: int) -> None:
    drawn = np.random.default_rng(5).random((20_000, count))
    holds = ((drawn.min(axis=1) <= 0.5) & (drawn.max(axis=1) >= 0.5)).mean()
    assert holds == pytest.approx(range_level(count), abs=0.015)


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_a_range_becomes_an_interval_at_the_least_count(confidence: float) -> None:
    least = least_count(confidence)
    assert is_mere_range(least - 1, confidence)
    assert not is_mere_range(least + 1, confidence)


def test_nothing_that_counts_is_an_error() -> None:
    with pytest.raises(ValueError, match="no sample counts"):
        summarise(samples(1.0, excluded=(0,)))
    with pytest.raises(ValueError, match="no sample counts"):
        summarise([])


def read_in_ticks(truth: float, jitter: float, count: int, rng: np.random.Generator, tick: float = 32.0) -> np.ndarray:
    """Return durations between two stamps of a clock that counts in ticks, begun anywhere within one."""
    begun = rng.uniform(0, tick, count)
    ended = begun + truth + rng.normal(0, jitter, count)
    return np.asarray((np.floor(ended / tick) - np.floor(begun / tick)) * tick)


@pytest.mark.parametrize("jitter", [0.0, 2.0, 12.0])
@pytest.mark.parametrize("count", [20, 60, 500])
def test_an_interval_of_readings_in_ticks_holds_the_true_median(count: int, jitter: float) -> None:
    rng = np.random.default_rng(2)
    held = errors = 0.0
    for _ in range(200):
        truth = rng.uniform(900.0, 1100.0)
        found = summarise(samples(*read_in_ticks(truth, jitter, count, rng)), 0.95, 32.0)
        held += found.low_ns <= truth <= found.high_ns
        errors = max(errors, abs(found.median_ns - truth))
    assert held >= 0.93 * 200
    assert errors < 16 if count < 500 else errors < 7


def test_equal_readings_have_an_interval_as_wide_as_their_tick_allows() -> None:
    found = summarise(samples(*[960.0] * 20), 0.95, 32.0)
    assert found.median_ns == 960.0
    assert found.high_ns - 960.0 == pytest.approx(960.0 - found.low_ns)
    assert found.high_ns - 960.0 == pytest.approx(32 * (4.5 / 20 + TICK_ERROR))  # the sixth from either end of twenty
    assert (found.min_ns, found.max_ns, found.stdev_ns) == (960.0, 960.0, 0.0)
    assert summarise(samples(*[960.0] * 20)).high_ns == 960.0


def test_the_interval_of_readings_near_zero_does_not_go_below() -> None:
    assert summarise(samples(*[0.0] * 20), 0.95, 32.0).low_ns == 0.0


@pytest.mark.parametrize("confidence", [0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
def test_ranks_are_those_of_the_exact_distribution(confidence: float) -> None:
    for count in (*range(1, 300), 1000, 4999, 10_000, 100_000):
        below = special.bdtr(np.arange(max(1, count // 2)), count, 0.5)
        exact = max(0, int(np.searchsorted(below, (1 - confidence) / 2, side="right")) - 1)
        assert interval_rank(count, confidence) == exact, count


def test_a_worker_starts_without_scipy() -> None:
    code = "import sys, cuprof.worker.server; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
