"""What pools of series say of the correlation of their samples."""

from __future__ import annotations

import numpy as np
import pytest

from cuprof.statistics.contrasts import learn
from cuprof.statistics.correlation import (
    UNKNOWN,
    Pools,
    _factor,
    _freedom,
    expected_correlation,
    inflate,
    neighbours_of,
    pool,
    ranks_of,
)
from cuprof.statistics.samples import Samples, order_of


def correlated(rng: np.random.Generator, rho: float, shape: tuple[int, int]) -> np.ndarray:
    """Return rows of a first-order process."""
    values = rng.standard_normal(shape)
    for place in range(1, shape[1]):
        values[:, place] = rho * values[:, place - 1] + np.sqrt(1 - rho**2) * values[:, place]
    return values


@pytest.mark.parametrize("count", [3, 5, 20, 100])
@pytest.mark.parametrize("rho", [-0.3, 1e-9, 0.3, 0.8, 0.95])
def test_inflation_and_freedom_are_exact_for_a_first_order_process(count: int, rho: float) -> None:
    correlations = rho ** np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    product = (np.eye(count) - 1 / count) @ correlations
    of_mean, of_variance = correlations.sum() / count**2, np.trace(product) / (count - 1)
    given = np.array([rho]), np.array([float(count)])
    assert _factor(*given)[0] == pytest.approx(count * of_mean / of_variance)
    assert _freedom(*given)[0] == pytest.approx(np.trace(product) ** 2 / np.trace(product @ product))


@pytest.mark.parametrize("count", [4, 5, 10, 20, 100])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
def test_the_expected_correlation_is_that_of_simulated_ranks(count: int, rho: float) -> None:
    values = correlated(np.random.default_rng(count), rho, (4000, count))
    ends = count * np.arange(1, 4001)
    found = neighbours_of(ranks_of(order_of(values.ravel(), ends), ends), ends).found[:, 0].mean()
    assert found == pytest.approx(float(expected_correlation(np.array(rho), np.array(float(count)))), abs=0.025)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
def test_forty_series_of_ten_samples_tell_their_correlation(rho: float) -> None:
    found = []
    for seed in range(20):
        values = np.exp(0.01 * correlated(np.random.default_rng(seed), rho, (40, 10)))
        found.append(learn(Samples.of(list(values))).base.mean[0, 0])
    assert np.mean(found) == pytest.approx(rho, abs=0.08)
    assert np.std(found) < 0.12


def test_a_series_alone_stays_near_what_is_supposed_of_all() -> None:
    values = correlated(np.random.default_rng(1), 0.8, (1, 10))
    one = neighbours_of(ranks_of(order_of(values.ravel(), np.array([10])), np.array([10])), np.array([10]))
    pooled = pool(one, UNKNOWN)
    assert -0.2 < pooled.mean[0, 0] < 0.6
    assert inflate(one, pooled).dof[0] < 9


def test_independent_samples_of_a_large_pool_lose_little() -> None:
    values = np.random.default_rng(2).standard_normal((100, 20))
    ends = 20 * np.arange(1, 101)
    found = neighbours_of(ranks_of(order_of(values.ravel(), ends), ends), ends)
    pooled = pool(found, UNKNOWN).take(np.zeros(100, np.int64))
    inflation = inflate(found, pooled)
    assert inflation.factor.mean() == pytest.approx(1.0, abs=0.15)
    assert inflation.dof.mean() > 14


def test_a_slow_drift_that_neighbours_hardly_show_counts_by_tenths() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((40, 200)) + 0.3 * np.cumsum(0.3 * rng.standard_normal((40, 200)), axis=1)
    ends = 200 * np.arange(1, 41)
    found = neighbours_of(ranks_of(order_of(values.ravel(), ends), ends), ends)
    pooled = pool(found, UNKNOWN).take(np.zeros(40, np.int64))
    without = Pools(*map(np.copy, pooled))
    without.mean[:, 1], without.deviation[:, 1] = -0.5, 1e-3
    assert inflate(found, pooled).factor.mean() > 1.3 * inflate(found, without).factor.mean()


def test_differences_are_learned_from_series_that_were_taken_together() -> None:
    rng, rounds = np.random.default_rng(4), [np.arange(20)] * 40
    drift = np.repeat(np.exp(0.05 * np.cumsum(rng.standard_normal((20, 20)), axis=1)), 2, axis=0)
    values = list(drift * np.exp(0.01 * rng.standard_normal((40, 20))))
    known = learn(Samples.of(values, rounds, rotation="a"))
    assert known.base.mean[0, 0] > 0.7
    assert abs(known.differences.mean[0, 0]) < 0.15
    apart = learn(Samples.of(values, rounds)).differences
    assert apart.deviation[0, 0] > known.differences.deviation[0, 0]
