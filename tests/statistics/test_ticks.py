from __future__ import annotations

import numpy as np
import pytest

from cuprof.statistics.ticks import spread_all, spread_over_tick


def spread_ties(durations: np.ndarray, tick_ns: float = 0.0) -> tuple[np.ndarray, float]:
    ((_, rows, ticks),) = spread_all([durations], [tick_ns])
    return rows[0], float(ticks[0])


def test_spread_readings_stay_in_order_and_within_their_tick() -> None:
    ordered = np.sort(32.0 * np.random.default_rng(3).normal(9.4, 0.7, 200).round())
    spread = spread_over_tick(ordered, 32.0)
    assert np.all(np.diff(spread) > 0)
    assert np.abs(spread - ordered).max() < 16
    assert spread_over_tick(np.array([1.0, 1.0, 5.0]), 32.0) == pytest.approx([0.0, 2.0, 5.0])


def test_means_of_readings_in_single_precision_keep_their_tick() -> None:
    """A cold sample of several launches is the mean of eight readings, whose float32 totals differ in a last digit."""
    rng = np.random.default_rng(5)
    ticks = rng.integers(158, 161, (400, 8))
    read = (ticks.astype(np.float32) * np.float32(32e-6)).astype(np.float64) * 1e6  # milliseconds to ns
    means = np.sort(read.mean(axis=1))
    assert 0 < np.diff(np.unique(means)).min() < 1e-2, "there are values that only rounding tells apart"
    spread = spread_over_tick(means, 4.0)
    assert np.abs(spread - means).max() == pytest.approx(2.0, abs=0.2)
    assert np.all(np.diff(spread) > -1e-3)


def test_ties_are_spread_evenly_over_their_tick() -> None:
    durations = np.array([64.0, 96.0, 96.0, 96.0, 96.0, 160.0])
    spread, tick = spread_ties(durations)
    assert tick == 32.0
    assert sorted(spread) == pytest.approx([64.0, 84.0, 92.0, 100.0, 108.0, 160.0])
    assert np.abs(spread - durations).max() <= tick / 2


@pytest.mark.parametrize("durations", [[1.0, 2.0, 4.5], [7.0, 7.0, 7.0], [3.0]])
def test_samples_without_ties_or_without_a_second_value_stay(durations: list[float]) -> None:
    spread, tick = spread_ties(np.array(durations))
    assert (spread.tolist(), tick) == (durations, 0.0)


def test_a_known_tick_spreads_what_fell_on_one_value() -> None:
    spread, tick = spread_ties(np.full(4, 96.0), tick_ns=32.0)
    assert tick == 32.0
    assert sorted(spread) == pytest.approx([84.0, 92.0, 100.0, 108.0])
