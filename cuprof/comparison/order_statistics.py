"""Bounds of a median from order statistics, for samples that are tied, heavy-tailed or autocorrelated."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

EXACT_COUNT = 400
"""Up to this many samples the binomial tail is summed exactly; above, the normal approximation errs by no rank."""
MOST_LAGS = 400
SPREAD_SEED = 20231
"""Fixed, so that the same samples always give the same bounds."""


@dataclass(frozen=True)
class MedianBounds:
    """Bound the median of a series at any level.

    With n independent samples of any distribution, the median lies between the j-th smallest and the j-th largest but
    for a chance of 2·P(Binomial(n, ½) < j) (David & Nagaraja, Order Statistics, 3rd ed., 7.1). A series with the
    autocorrelation time τ is taken for n/τ independent samples. Where these are too few for the level, the whole range
    is taken and stretched as Student's t grows from the level that the range has to the level asked for.

    Args:
        ordered: ascending samples.
        correlation_time: τ, at least 1.
    """

    ordered: np.ndarray
    correlation_time: float = 1.0

    @classmethod
    def of(cls, series: np.ndarray) -> MedianBounds:
        """Return the bounds of a series given in the order in which it was taken."""
        return cls(np.sort(series), correlation_time(series))

    @property
    def median(self) -> float:
        """Return the sample median."""
        return float(np.median(self.ordered))

    @property
    def effective_count(self) -> int:
        """Return how many independent samples the series is taken for."""
        count = int(self.ordered.size)
        return min(count, max(2, int(count / self.correlation_time)))

    def at(self, error_rate: float) -> tuple[float, float]:
        """Return bounds that both hold but for a chance of `error_rate`; infinite for a single sample."""
        count, effective = int(self.ordered.size), self.effective_count
        if count < 2:
            return -math.inf, math.inf
        rank = lower_rank(effective, error_rate / 2)
        if rank:
            place = max(0, math.floor(count * (rank - 0.5) / effective - 0.5))
            return float(self.ordered[place]), float(self.ordered[count - 1 - place])
        reached = 2.0 ** (1 - effective)
        stretch = student_t(error_rate, effective - 1) / student_t(reached, effective - 1)
        middle, lowest, highest = self.median, float(self.ordered[0]), float(self.ordered[-1])
        return middle - stretch * (middle - lowest), middle + stretch * (highest - middle)


@functools.lru_cache(maxsize=65536)
def lower_rank(count: int, tail: float) -> int:
    """Return the largest j with P(Binomial(count, ½) < j) ≤ `tail`; 0 where not even the smallest sample will do."""
    if count > EXACT_COUNT:
        return max(0, math.floor(count / 2 + 0.5 + NormalDist().inv_cdf(tail) * math.sqrt(count) / 2))
    allowed, total = tail * 2.0**count, 0
    for below in range(count // 2 + 1):
        total += math.comb(count, below)
        if total > allowed:
            return below
    return count // 2


def correlation_time(series: np.ndarray) -> float:
    """Return the integrated autocorrelation time of "above the median", at least 1.

    It is what the variance of a median grows by. Summed over pairs of lags while the pairs stay positive (Geyer,
    Practical Markov Chain Monte Carlo, 1992); pairs after the first count only above their standard error, since
    their noise would widen the bounds of independent samples.
    """
    count = int(series.size)
    if count < 8:
        return 1.0
    signs = np.sign(series - np.median(series))
    signs = signs - signs.mean()
    power = float(signs @ signs)
    if power <= 0:
        return 1.0
    lags = min(count // 2, MOST_LAGS)
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(signs, size)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum), size)[: lags + 1] / power
    correlation[1:] += 1.0 / count  # taking the mean off lowers each by about this
    pairs = correlation[: (lags + 1) // 2 * 2].reshape(-1, 2).sum(axis=1)
    total, least = float(pairs[0]), math.sqrt(2.0 / count)
    for pair in pairs[1:]:
        if pair <= least:
            break
        total += float(pair)
    return max(1.0, 2.0 * total - 1.0)


def spread_ties(durations: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the durations with ties spread evenly over their tick, and the tick.

    A timer that counts in ticks (32 ns for CUDA's events) puts many samples on one value. Quantiles of the spread
    samples are those of grouped data; the same samples always spread alike.

    Args:
        durations: ns, in the order in which they were taken.
    """
    values, places, counts = np.unique(durations, return_inverse=True, return_counts=True)
    if values.size == durations.size or values.size < 2:
        return durations, 0.0
    tick = float(np.diff(values).min())
    shuffled = np.random.default_rng(SPREAD_SEED).permutation(durations.size)
    by_value = shuffled[np.argsort(places[shuffled], kind="stable")]
    first = np.repeat(np.cumsum(counts) - counts, counts)
    share = (np.arange(durations.size) - first + 0.5) / np.repeat(counts, counts) - 0.5
    spread = durations.astype(np.float64).copy()
    spread[by_value] += tick * share
    return spread, tick


def student_t(two_sided: float, freedom: int) -> float:
    """Return the t that |T| exceeds with probability `two_sided` (Hill, Algorithm 396, CACM 13(10), 1970)."""
    p, n = two_sided, float(freedom)
    if freedom == 1:
        return 1.0 / math.tan(p * math.pi / 2)
    if freedom == 2:
        return math.sqrt(2.0 / (p * (2.0 - p)) - 2.0)
    a = 1.0 / (n - 0.5)
    b = 48.0 / a**2
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(a * math.pi / 2) * n
    y = (d * p) ** (2.0 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(p / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        y = math.expm1(a * y * y)
    else:
        y = (
            (1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)) * y - 1.0
        ) * (n + 1.0) / (n + 2.0) + 1.0 / y
    return math.sqrt(n * y)
