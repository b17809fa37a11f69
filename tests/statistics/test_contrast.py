from __future__ import annotations

import math

import numpy as np
import pytest

from cuprof.statistics import Noise
from cuprof.statistics.contrast import Contrasts, Pair, contrast, contrast_all
from cuprof.statistics.series import Series

ROUNDS = np.arange(60)


def series(seed: int, median: float = 50_000.0, noise: float = 0.003, count: int = 60, **changes: object) -> Series:
    values = median * (1 + noise * np.random.default_rng(seed).standard_normal(count))
    return Series(values, **{"rounds": np.arange(count), "together": "a", **changes})  # type: ignore[arg-type]


def test_pairs_cancel_a_drift_that_both_share() -> None:
    drift = np.linspace(1, 1.2, 60)
    base, new = series(1), series(2, 51_000.0)
    base = Series(base.durations * drift, ROUNDS, "a")
    new = Series(new.durations * drift, ROUNDS, "a")
    found = contrast(base, new)
    low, high = found.log_bounds(0.05)
    assert found.paired
    assert math.exp(low) < 1.02 < math.exp(high)
    assert high - low < 0.005
    apart = contrast(base, Series(new.durations, ROUNDS, "b"))
    assert not apart.paired
    assert apart.log_bounds(0.05)[1] - apart.log_bounds(0.05)[0] > 0.05


def test_pairs_meet_by_the_number_of_their_round() -> None:
    drift = np.linspace(1, 2, 60)
    base = Series(series(1).durations * drift, ROUNDS, "a")
    keep = np.arange(60) % 3 != 0
    new = Series((series(2).durations * drift)[keep], ROUNDS[keep], "a")
    found = contrast(base, new)
    assert found.paired
    assert math.exp(found.shift.estimate) == pytest.approx(1, abs=0.003)


def test_series_of_very_different_length_are_not_cut_to_the_shorter() -> None:
    found = contrast(series(1, count=20), series(2, noise=0.05, count=1300))
    assert not found.paired
    assert found.shift.sums.first.size == 1300


def test_noise_widens_intervals() -> None:
    base, new = series(1), series(2)
    apart = Series(new.durations, ROUNDS, "b")
    low, high = contrast(base, new, Noise(0.01)).log_bounds(0.05)
    assert (high - low) / 2 == pytest.approx(1.96 * 0.01 * math.sqrt(2), rel=0.05)
    low, high = contrast(base, apart, Noise(0.01)).log_bounds(0.05)
    assert (high - low) / 2 == pytest.approx(1.96 * 0.01 * math.sqrt(2), rel=0.05)
    low, high = contrast(base, apart, Noise(0.01, freedom=3)).log_bounds(0.05)
    assert (high - low) / 2 == pytest.approx(3.182 * 0.01 * math.sqrt(2), rel=0.05)


def test_ticks_widen_the_interval() -> None:
    coarse = Series(np.repeat([3616.0, 3648.0], 30), ROUNDS, "b")
    low, high = contrast(coarse, Series(coarse.durations, ROUNDS, "c")).log_bounds(0.05)
    assert high - low >= 2 * 0.125 * 2 * 32 / 3632


def test_summaries_stand_for_samples_with_their_own_error() -> None:
    base = Series(np.array([50_000.0]), relative_error=0.001)
    both = contrast(base, Series(np.array([51_000.0]), relative_error=0.001))
    low, high = both.log_bounds(0.05)
    assert both.log_ratio == pytest.approx(math.log(1.02))
    assert (high - low) / 2 == pytest.approx(1.96 * 0.001 * math.sqrt(2), rel=1e-3)
    mixed = contrast(base, series(1, 51_000.0, together=""))
    assert mixed.log_ratio == pytest.approx(math.log(1.02), abs=0.002)
    assert mixed.log_bounds(0.05)[1] - mixed.log_bounds(0.05)[0] < 0.02


def test_the_inverse_comparison_has_the_inverse_interval() -> None:
    base, new = series(1, together=""), series(2, 51_000.0, together="")
    low, high = contrast(base, new).log_bounds(0.01)
    back_low, back_high = contrast(new, base).log_bounds(0.01)
    assert (-back_high, -back_low) == pytest.approx((low, high), abs=1e-6)


def test_a_bridge_frees_a_ratio_of_what_two_cards_differ_by_and_adds_its_error() -> None:
    rng = np.random.default_rng(5)

    def times(factor: float) -> Series:
        return Series(factor * 50_000 * np.exp(rng.normal(0, 0.01, 40)))

    covered, wider = 0, 0
    for _ in range(300):
        bridge = contrast(times(1.0), times(1.03))
        plain = contrast(times(1.0), times(1.03 * 1.02))
        bridged = plain._replace(bridge=bridge)
        low, high = bridged.log_bounds(0.05)
        covered += low <= math.log(1.02) <= high
        bounds = plain.log_bounds(0.05)
        wider += high - low > bounds[1] - bounds[0]
        assert bridged.log_ratio == pytest.approx(plain.log_ratio - bridge.log_ratio)
    assert covered >= 0.92 * 300
    assert wider == 300


def draw_pairs(count: int) -> list[Pair]:
    """Return pairs of all kinds: few samples and many, on ticks, drifting, constant, of shared rounds, of one value."""
    rng = np.random.default_rng(11)

    def draw(tick: float) -> Series:
        size = int(rng.choice([1, 2, 3, 5, 9, 14, 20, 20, 33, 80, 300]))
        values = 5000 * np.exp(rng.choice([0, 0.003, 0.03]) * rng.standard_normal(size) + rng.choice([0, 0.05]))
        if rng.random() < 0.3:
            values *= np.exp(np.cumsum(0.002 * rng.standard_normal(size)))
        if tick or rng.random() < 0.2:
            values = np.round(values / 32) * 32
        first = int(rng.choice([0, 0, 2]))
        error = 0.01 if size == 1 and rng.random() < 0.5 else 0.0
        return Series(values, np.arange(first, first + size), str(rng.choice(["", "a"])), error, tick)

    noises = [Noise(), Noise(0.002), Noise(0.05, 5)]
    ticks = [float(rng.choice([0, 32])) for _ in range(count)]
    return [Pair(draw(tick), draw(tick), noises[place % 3]) for place, tick in enumerate(ticks)]


def test_many_contrasts_at_once_are_what_each_is_by_itself() -> None:
    pairs = draw_pairs(300)
    together = contrast_all(pairs)
    assert {each.paired for each in together} == {True, False}
    for pair, found in zip(pairs, together, strict=True):
        alone = contrast(*pair)
        for rate in (0.05, 1e-6):
            assert repr(found.log_bounds(rate)) == repr(alone.log_bounds(rate))
        assert (found.log_ratio, found.paired, found.resolution) == (alone.log_ratio, alone.paired, alone.resolution)


def test_those_differ_whose_interval_excludes_equal_times() -> None:
    found = contrast_all(draw_pairs(300))
    together = Contrasts(found)
    for rate in (0.3, 0.05, 1e-4, 0.3):
        for asked in (range(300), range(20, 300, 7)):
            differing = [place for place in asked if not np.prod(np.sign(found[place].log_bounds(rate))) <= 0]
            assert differing
            assert together.find_differing(rate, np.array(asked)).tolist() == differing
