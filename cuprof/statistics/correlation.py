"""How far neighbouring samples resemble each other, and what that does to the error of a mean.

Ten samples say little of their own autocorrelation, but all series of a sweep were taken by one method on one device
within minutes. What they say together, the pool, is the prior of each of them. The model is normal in two stages: the
pool's correlation is about 0.1 ± 0.3, and a series' about its pool's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuprof.statistics import Floats, Integers

PRIOR, PRIOR_DEVIATION = 0.1, 0.3
"""Of the correlation of neighbours in a pool, before anything is known of it."""
BESIDE_POOL = 0.10
"""Standard deviation of a series' correlation about its pool's ρ, as a share of 1 - ρ²."""
BESIDE_SERIES = 0.2
"""Standard deviation of the correlation of differences within rounds, beside what depends on that of the series: it
may be anything from that, if each varies by itself, to none, if both drift alike."""
LOWEST, HIGHEST = -0.5, 0.97
TENTHS = 10
LEAST_FOR_TENTHS = 20
"""Samples from which on the means of tenths of a series are asked, too: a slow correlation hides among neighbours."""
UNCERTAIN = 0.5
"""How much of the squared coefficient of variation of the inflation counts against the degrees of freedom. With all of
it, and with the mean in place of the geometric mean, intervals missed half as often as they may and power was lost."""
STEPS = 4
"""Of Newton's method."""
NODES = ((-np.sqrt(3.0), 1 / 6), (0.0, 2 / 3), (np.sqrt(3.0), 1 / 6))
"""Gauss-Hermite quadrature of three points: standard deviations from the mean, and weights."""


class Neighbours(NamedTuple):
    """What each of many series shows of the correlation of its neighbours: by its samples, and by the means of tenths.

    Args:
        found: (n, 2), correlation of neighbouring ranks, and of the means of neighbouring tenths.
        counts: (n, 2), of samples and of tenths; 1 where there are too few samples for tenths.
    """

    found: Floats
    counts: Integers


class Pools(NamedTuple):
    """What the pools of some series say of the correlation of neighbours and of tenths: (n, 2); one pool has a row."""

    mean: Floats
    deviation: Floats

    def take(self, places: Integers | slice) -> Pools:
        """Return some of the pools."""
        return Pools(*(each[places] for each in self))

    def beside(self) -> Pools:
        """Return the prior for differences within rounds: what the two series share of a correlation cancels out."""
        return Pools(self.mean / 2, np.sqrt(self.deviation**2 + BESIDE_SERIES**2 + (self.mean / 2) ** 2))


UNKNOWN = Pools(np.full((1, 2), PRIOR), np.full((1, 2), PRIOR_DEVIATION))
"""The pool of no series."""


class Inflation(NamedTuple):
    """By how much correlation raises the variance of a mean over s² / n, and the freedom of that variance.

    Args:
        factor: n · Var(mean) / E[s²].
        dof: degrees of freedom of the estimated variance, an uncertain correlation counted.
        model_dof: what the uncertain correlation alone leaves; infinite where it is known.
    """

    factor: Floats
    dof: Floats
    model_dof: Floats


def ranks_of(order: Integers, ends: Integers) -> Floats:
    """Return the rank of each value in its series, the middle one 0, given the order that makes each ascending."""
    counts = np.diff(ends, prepend=0)
    ranks = np.empty(order.size)
    ranks[order] = np.arange(order.size) - (ends - counts + (counts - 1) / 2).repeat(counts)
    return ranks


def neighbours_of(ranks: Floats, ends: Integers) -> Neighbours:
    """Return what each series shows, by its ranks (`ranks_of`), of the correlation of neighbours."""
    counts = np.diff(ends, prepend=0)
    starts = ends - counts
    found, sizes = np.zeros((ends.size, 2)), np.ones((ends.size, 2), dtype=np.int64)
    found[:, 0], sizes[:, 0] = _correlation(ranks, starts, counts), counts
    long = np.flatnonzero(counts >= LEAST_FOR_TENTHS)
    if long.size:
        edges = starts[long, None] + counts[long, None] * np.arange(TENTHS) // TENTHS
        lengths = np.diff(np.column_stack((edges, ends[long])), axis=1)
        sums = np.concatenate(([0.0], np.cumsum(ranks)))
        means = (sums[edges + lengths] - sums[edges]) / lengths
        means -= means.mean(axis=1, keepdims=True)
        found[long, 1] = _correlation(means.ravel(), TENTHS * np.arange(long.size), np.full(long.size, TENTHS))
        sizes[long, 1] = TENTHS
    return Neighbours(found, sizes)


def _correlation(centred: Floats, starts: Integers, counts: Integers) -> Floats:
    """Return the correlation of neighbours in each series, whose mean is 0; 0 for a constant one."""
    if not starts.size:
        return np.empty(0)
    products = centred * np.append(centred[1:], 0.0)
    products[starts + counts - 1] = 0.0
    squares = np.add.reduceat(centred * centred, starts)
    return np.add.reduceat(products, starts) / np.where(squares > 0, squares, 1.0)


def pool(neighbours: Neighbours, before: Pools) -> Pools:
    """Return what some series say together, added to the pool before them."""
    found = [
        _pooled(*(each[some, kind] for each in neighbours), *(each[:, kind] for each in before))
        for kind, some in enumerate((neighbours.counts >= 3).T)
    ]
    return Pools(*map(np.column_stack, zip(*found, strict=True)))


def inflate(neighbours: Neighbours, pools: Pools) -> Inflation:
    """Return the inflation of each series, given its pool: by neighbours or, where it is larger, by tenths."""
    counts = neighbours.counts.astype(np.float64)
    mean, deviation = _posterior(neighbours.found, counts, *pools)
    factors, uncertainties = _inflation(counts, mean, deviation)
    is_slow = (factors[:, 1] > factors[:, 0]) & (counts[:, 1] > 1)
    factor, uncertain = (np.where(is_slow, each[:, 1], each[:, 0]) for each in (factors, uncertainties))
    with np.errstate(divide="ignore"):
        return Inflation(factor, 2 / (2 / _freedom(mean[:, 0], counts[:, 0]) + uncertain), 2 / uncertain)


def _pooled(found: Floats, counts: Floats, before: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of a pool's correlation."""
    mean = before
    for _ in range(STEPS):
        estimate, variance = _solved(found, counts, mean)
        weights = 1 / (variance + (BESIDE_POOL * (1 - mean**2)) ** 2)
        total = 1 / deviation**2 + weights.sum()
        mean = np.clip((before / deviation**2 + (weights * estimate).sum()) / total, LOWEST, HIGHEST)
    return mean, 1 / np.sqrt(total)


def _posterior(found: Floats, counts: Floats, pool_mean: Floats, pool_deviation: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each series' own correlation, given its pool's."""
    mean, spread = pool_mean, (BESIDE_POOL * (1 - pool_mean**2)) ** 2
    deviation = np.hypot(pool_deviation, np.sqrt(spread))
    few = counts < 3
    for _ in range(STEPS):
        estimate, variance = _solved(found, counts, mean)
        own = np.where(few, 0.0, spread / (spread + variance))
        mean = np.clip(own * estimate + (1 - own) * pool_mean, LOWEST, HIGHEST)
        deviation = np.sqrt((1 - own) * spread + ((1 - own) * pool_deviation) ** 2)
    return mean, deviation


def _solved(found: Floats, counts: Floats, near: Floats) -> tuple[Floats, Floats]:
    """Return the estimate of ρ that each series gives by itself, and its variance, linear about a nearby ρ."""
    counts = np.maximum(counts, 2)  # what fewer say is not heeded
    expected, above, below = expected_correlation(np.stack([near, near + 0.01, near - 0.01]), counts)
    slope = np.maximum((above - below) / 0.02, 0.05)
    variance = (1 - expected**2) * np.maximum(counts - 2, 0.5) / counts**2
    return near + (found - expected) / slope, variance / slope**2


def expected_correlation(rho: Floats, counts: Floats) -> Floats:
    """Return the expectation of the rank correlation of neighbours in a first-order process of `counts` samples.

    The ratio of the expectations of numerator and denominator, whose mean was taken off; less what simulation shows
    that the ratio's own expectation lies below; for ranks (Pearson's 6/π · asin(r/2)).
    """
    of_mean = _sum_of_correlations(rho, counts) / counts  # the variance of the mean, that of a sample being 1
    at_end = (1 - rho**counts) / (1 - rho) / counts  # the covariance of the first sample and the mean
    ratio = ((counts - 1) * rho - (counts + 1) * of_mean + 2 * at_end) / (counts * (1 - of_mean))
    ratio = ratio - np.minimum(2.0, (counts + 2) / 5) * rho / (counts + 4)
    return 6 / np.pi * np.arcsin(np.clip(ratio, -1, 1) / 2)


def _inflation(counts: Floats, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """Return the inflation averaged over the posterior of ρ, and what its uncertainty takes from the freedom."""
    factors = np.array([_factor(np.clip(mean + node * deviation, LOWEST, HIGHEST), counts) for node, _ in NODES])
    weights = np.array([weight for _, weight in NODES])[:, None, None]
    average = (weights * factors).sum(axis=0)
    uncertain = UNCERTAIN * (weights * (factors / average - 1) ** 2).sum(axis=0)
    return np.exp((weights * np.log(factors)).sum(axis=0)), uncertain


def _sum_of_correlations(rho: Floats, counts: Floats) -> Floats:
    """Return 1 + 2 Σ (1 - k/n) ρ^k, the variance of the mean times n, that of a sample being 1."""
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**counts) / (counts * (1 - rho) ** 2)


def _factor(rho: Floats, counts: Floats) -> Floats:
    """Return n · Var(mean) / E[s²] of a first-order process: correlated short series understate their spread, too."""
    total = _sum_of_correlations(rho, counts)
    return np.where(counts > 1, total * (counts - 1) / np.maximum(counts - total, 1e-9), 1.0)


def _freedom(rho: Floats, counts: Floats) -> Floats:
    """Return the degrees of freedom of s² in a first-order process: 2 E[s²]² / Var(s²), exact for normal samples.

    With Σ the correlations and C what takes off the mean: tr(CΣ)² / tr(CΣCΣ).
    """
    total = _sum_of_correlations(rho, counts)
    squared = _sum_of_correlations(rho**2, counts)  # tr(ΣΣ) / n
    inner, edge = (1 + rho) / (1 - rho), 1 / (1 - rho)  # a row's sum is inner - edge (ρ^t + ρ^(n+1-t))
    power = rho**counts
    once, twice = rho * (1 - power) / (1 - rho), rho**2 * (1 - power**2) / (1 - rho**2)
    of_rows = counts * inner**2 - 4 * inner * edge * once + 2 * edge**2 * (twice + counts * power * rho)
    trace = counts * squared - 2 * of_rows / counts + total**2
    return np.where(counts > 1, (counts - total) ** 2 / np.maximum(trace, 1e-12), 1.0)
