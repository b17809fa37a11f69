from __future__ import annotations

import numpy as np
import pytest

from cuprof.statistics.median import spread_over_tick


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
