from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cuprof.statistics.shift import (
    Shift,
    _order,
    effective_counts,
    placement_variances,
    shifts_between,
    shifts_of_pairs,
)

RNG = np.random.default_rng


def shift_between(base: np.ndarray, new: np.ndarray) -> Shift:
    return shifts_between([(base, new)])[0]


def shift_of_pairs(differences: np.ndarray) -> Shift:
    return shifts_of_pairs([differences])[0]


def effective_count(series: np.ndarray) -> float:
    return float(effective_counts(np.argsort(series[None], axis=1, kind="stable"))[0])


@pytest.mark.parametrize("size", [1, 2, 17, 100, 400])
def test_equal_samples_keep_their_order(size: int) -> None:
    drawn = RNG(size).normal(size=(30, size))
    for rows in (drawn, np.round(drawn), np.where(np.arange(30)[:, None] % 2, np.round(4 * drawn), drawn)):
        order, ascending = _order(rows)
        assert (order == np.argsort(rows, axis=1, kind="stable")).all()
        assert (ascending == np.sort(rows, axis=1)).all()


def test_the_estimates_are_those_of_hodges_and_lehmann() -> None:
    base, new = RNG(1).normal(0, 1, 31), RNG(2).normal(3, 2, 44)
    differences = new[:, None] - base[None, :]
    assert shift_between(base, new).estimate == pytest.approx(np.median(differences), abs=1e-3)
    walsh = (base[:, None] + base[None, :]) / 2
    expected = np.median(walsh[np.triu_indices(base.size)])
    assert shift_of_pairs(base).estimate == pytest.approx(expected, abs=1e-2)


def test_the_paired_interval_is_wilcoxons() -> None:
    values = RNG(3).normal(1, 1, 25)
    low, high = shift_of_pairs(values).bounds(0.05)
    assert stats.wilcoxon(values - (low - 0.06)).pvalue < 0.05 < stats.wilcoxon(values - (low + 0.06)).pvalue
    assert stats.wilcoxon(values - (high + 0.06)).pvalue < 0.05 < stats.wilcoxon(values - (high - 0.06)).pvalue


def test_the_unpaired_interval_holds_unequal_spreads_and_sizes() -> None:
    rng, missed = RNG(4), 0
    for _ in range(300):
        low, high = shift_between(rng.normal(0, 0.1, 200), rng.normal(0, 3, 20)).bounds(0.05)
        missed += not low <= 0 <= high
    assert missed <= 27  # 15 expected; above 27 at most once in 400 runs


@pytest.mark.parametrize("error_rate", [0.05, 1e-4, 1e-9])
def test_a_lower_error_rate_never_gives_a_narrower_interval(error_rate: float) -> None:
    shift = shift_between(RNG(5).normal(0, 1, 12), RNG(6).normal(0, 1, 9))
    low, high = shift.bounds(error_rate)
    wider_low, wider_high = shift.bounds(error_rate / 2)
    assert wider_low <= low <= shift.estimate <= high <= wider_high


def test_too_few_samples_stretch_the_range_and_one_says_nothing() -> None:
    few = shift_of_pairs(np.array([0.0, 1.0, 2.0, 3.0]))
    low, high = few.bounds(1e-6)
    assert low < 0
    assert high > 3
    assert shift_between(np.array([1.0]), np.arange(5.0)).bounds(0.05) == (-math.inf, math.inf)


@pytest.mark.parametrize(("base", "new"), [(1, 1), (1, 60), (2, 2), (2, 60), (60, 2)])
def test_one_or_two_samples_give_no_interval(base: int, new: int) -> None:
    shift = shift_between(RNG(1).normal(0, 0.01, base), RNG(2).normal(1, 0.01, new))
    assert shift.bounds(0.05) == (-math.inf, math.inf)
    assert shift_of_pairs(RNG(1).normal(1, 0.01, min(base, new))).bounds(0.05) == (-math.inf, math.inf)


def test_few_samples_count_by_the_smaller_side_alone() -> None:
    few = shift_between(np.array([0.0, 0.001, 0.002]), RNG(1).normal(0, 1, 60))
    assert few.freedom == 2
    assert shift_between(RNG(2).normal(0, 1, 10), RNG(1).normal(0, 1, 60)).freedom > 9


def test_few_equal_samples_are_no_certainty_and_many_are() -> None:
    five, twenty, spread = np.full(5, 1.0), np.full(20, 1.0), RNG(1).normal(2, 0.1, 60)
    for shift in (shift_between(five, five + 1), shift_between(spread, five), shift_of_pairs(five)):
        assert shift.bounds(0.05) == (-math.inf, math.inf)
    assert shift_between(twenty, twenty + 1).bounds(0.05) == pytest.approx((1, 1))
    assert shift_of_pairs(twenty).bounds(2**-18) == pytest.approx((1, 1))
    assert shift_of_pairs(twenty).bounds(2**-20) == (-math.inf, math.inf)


def test_few_pairs_count_by_students_t_and_many_by_the_normal_distribution() -> None:
    values = RNG(1).normal(0, 1, 15)
    assert shift_of_pairs(values).freedom == math.inf
    assert [shift_of_pairs(values[:count]).freedom for count in (5, 7, 14)] == [4, 6, 13]


def test_a_step_within_a_short_series_does_not_blind_it() -> None:
    base = np.where(np.arange(20) < 9, 0.005, 0.0) + RNG(1).normal(0, 3e-4, 20)
    new = 0.095 + RNG(2).normal(0, 6e-4, 20)
    assert effective_count(base) < 3
    low, high = shift_between(base, new).bounds(0.05 / 48)
    assert 0.05 < low < 0.095 < high < 0.15
    low, high = shift_of_pairs(new - base).bounds(0.05 / 48)
    assert 0.05 < low < 0.095 < high < 0.15


def test_effective_count_of_independent_and_correlated_samples() -> None:
    independent = [effective_count(RNG(seed).normal(0, 1, 500)) for seed in range(20)]
    assert np.median(independent) == 500
    correlated = []
    for seed in range(20):
        rng = RNG(seed)
        values = np.zeros(500)
        for place in range(1, 500):
            values[place] = 0.6 * values[place - 1] + rng.normal()
        correlated.append(effective_count(values))
    assert 60 < np.median(correlated) < 150  # 500 · 0.4 / 1.6 = 125, less the caution


def test_a_trend_leaves_few_independent_samples() -> None:
    assert effective_count(np.arange(200.0)) < 20


def test_placements_are_shares_of_the_other_series_ties_by_half() -> None:
    rng = RNG(3)
    pairs = [
        (np.sort(rng.integers(0, 6, one).astype(float)), np.sort(rng.integers(0, 6, other).astype(float)))
        for one, other in ((3, 3), (20, 20), (7, 90), (90, 7), (500, 20))
    ]
    for (first, second), found in zip(pairs, placement_variances(pairs, np.zeros(len(pairs))), strict=True):
        for samples, others, variance in zip((first, second), (second, first), found, strict=True):
            below = (others < samples[:, None]).mean(axis=1) + (others == samples[:, None]).mean(axis=1) / 2
            assert variance == pytest.approx(np.var(below, ddof=1))
