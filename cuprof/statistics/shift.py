"""How far one set of samples is shifted against another: the Hodges-Lehmann estimate and its interval at any level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuprof.statistics.critical import critical
from cuprof.statistics.sums import Sums, blocks, find_quantiles, stack
from cuprof.statistics.ticks import by_size

MOST_LAGS = 400
LEAST_FOR_LAGS = 8
HIGHEST_CORRELATION = 0.99
LEAST_SAMPLES = 3
"""Fewer say nothing of their spread: they give no interval."""
FEW = 10
"""With fewer samples on one side, the degrees of freedom are those of that side alone. Satterthwaite's are too many
where the few happen to lie together: 2 samples beside 60 held a false difference in 59 % of groups of 20, 3 in 22 %."""
LEAST_FOR_NORMAL = 15
"""Pairs from which the signed-rank statistic, whose variance is known, goes with the normal distribution. The interval
is of the quantiles of the averages, which fewer leave too uncertain: 36 % of groups of 20 equal pairs of 5 samples held
a false difference, where 5 % may."""
MANY, LEAST_FREEDOM = 20, 4
"""From so many samples on, no fewer degrees of freedom than these, however few independent samples they are worth. One
step within a short series leaves 2 of 20, one degree of freedom, and a critical value of 600 that says nothing of the
data: with 4, simulated steps and correlations of up to 0.9 cause no more false differences, with 6 they do."""


@dataclass(frozen=True)
class Shift:
    """The middle of all sums of one element of `first` and one of `second`, and bounds of the truth behind it.

    For two samples x and y, the sums of y and -x are all differences, and their median is the shift by Hodges and
    Lehmann (Annals of Mathematical Statistics 34, 1963); for one sample d, half of the sums of d and d are the Walsh
    averages. The share of sums below the true shift has the mean ½ and the standard deviation `deviation`, so the
    bounds are the quantiles at ½ ± t · `deviation`. Where these lie beyond 0 and 1, samples are too few for the level:
    then the whole range is taken and stretched by as much as the quantile lies beyond.

    Args:
        deviation: of the share.
        freedom: degrees of freedom behind `deviation`; infinite where it is known.
        constant: the fewest samples of a series whose samples are all equal; infinite without one. That the median lies
            where all of n samples do is wrong with a chance of up to 2^(1-n).
    """

    sums: Sums
    deviation: float
    freedom: float
    constant: float = math.inf

    @cached_property
    def estimate(self) -> float:
        """Return the median of the sums."""
        return self.sums.quantile(self.sums.rank(0.5))

    @property
    def lowest(self) -> float:
        """Return the smallest of the sums."""
        return self.sums.factor * self.sums.lowest

    @property
    def highest(self) -> float:
        """Return the largest of the sums."""
        return self.sums.factor * self.sums.highest

    def bounds(self, error_rate: float) -> tuple[float, float]:
        """Return the interval that misses the true shift with a chance of `error_rate`."""
        if not self._tells(error_rate):
            return -math.inf, math.inf
        if ranks := self.ranks(error_rate):
            return self.sums.quantile(ranks[0]), self.sums.quantile(ranks[1])
        stretch = 2.0 * critical(error_rate, self.freedom) * self.deviation
        return (
            self.estimate - stretch * (self.estimate - self.lowest),
            self.estimate + stretch * (self.highest - self.estimate),
        )

    def ranks(self, error_rate: float) -> tuple[int, ...]:
        """Return the ranks of the sums that bound the interval; none where it is no part of their range."""
        if not self._tells(error_rate):
            return ()
        reach = critical(error_rate, self.freedom) * self.deviation
        return (self.sums.rank(0.5 - reach), self.sums.rank(0.5 + reach)) if reach < 0.5 else ()

    def _tells(self, error_rate: float) -> bool:
        return math.isfinite(self.deviation) and 2.0 ** (1.0 - self.constant) <= error_rate


def shifts_of_pairs(series: Sequence[np.ndarray]) -> list[Shift]:
    """Return the shift of each of many paired samples (Wilcoxon's signed-rank statistic).

    Args:
        series: differences, in the order in which they were taken.
    """
    shifts = []
    for ordered, count in zip(sort_all(series), effective_counts(series), strict=True):
        # The variance of the share of Walsh averages below the centre of a symmetric distribution.
        variance = (2 * count + 1) / (6 * count * (count + 1))
        deviation = math.sqrt(variance) if ordered.size >= LEAST_SAMPLES else math.inf
        # With few samples, or their independent number only estimated, the uncertainty is taken for that of a variance.
        known = count == ordered.size and count >= LEAST_FOR_NORMAL
        freedom = math.inf if known else _bounded(count - 1, ordered.size)
        shifts.append(Shift(Sums(ordered, ordered, 0.5), deviation, freedom, _constant(ordered)))
    return shifts


def shifts_between(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Shift]:
    """Return the shift from the first to the second of each pair of series, in the order in which they were taken.

    The two may differ in spread and number: the variance is that of the placements, with Satterthwaite's degrees of
    freedom (Brunner & Munzel, Biometrical Journal 42, 2000).
    """
    bases, news = ([pair[side] for pair in pairs] for side in (0, 1))
    ordered, news_ordered = sort_all(bases), sort_all(news)
    counts = list(zip(effective_counts(bases), effective_counts(news), strict=True))
    found = [Sums(y, -x[::-1]) for x, y in zip(ordered, news_ordered, strict=True)]
    told = [place for place, sums in enumerate(found) if min(sums.first.size, sums.second.size) >= LEAST_SAMPLES]
    find_quantiles((found[place], found[place].rank(0.5)) for place in told)
    middles = [found[place].quantile(found[place].rank(0.5)) for place in told]
    apart = [(ordered[place], found[place].first) for place in told]
    variances = dict(zip(told, placement_variances(apart, middles), strict=True))
    shifts = []
    for place, sums in enumerate(found):
        if place not in variances:
            shifts.append(Shift(sums, math.inf, math.inf))
            continue
        count, other_count = counts[place]
        part, other_part = (variance / each for variance, each in zip(variances[place], counts[place], strict=True))
        total, fewest = part + other_part, min(sums.first.size, sums.second.size)
        constant = _constant(ordered[place], sums.first)
        if total <= 0:
            shifts.append(Shift(sums, 0.0, math.inf, constant))
            continue
        if fewest < FEW:
            freedom = min(count, other_count) - 1
        else:
            freedom = total**2 / (part**2 / (count - 1) + other_part**2 / (other_count - 1))
        shifts.append(Shift(sums, math.sqrt(total), _bounded(freedom, fewest), constant))
    return shifts


def placement_variances(pairs: Sequence[tuple[np.ndarray, np.ndarray]], shifts: Sequence[float]) -> list[list[float]]:
    """Return the variance of the shares of the other series below each sample, for both series of many pairs.

    Args:
        pairs: ascending series.
        shifts: what the first of each pair is moved by.
    """
    shares = [np.empty(0)] * (2 * len(pairs))
    sizes = [(first.size, second.size) for first, second in pairs]
    for places in blocks(sizes, [sum(each) for each in sizes]):
        first, second = (stack([pairs[place][side] for place in places]) for side in (0, 1))
        first += np.array([shifts[place] for place in places])[:, None]
        behind, before = _ranks_among(first, second), _ranks_among(second, first)[::-1]  # of ties, which count by half
        for side in (0, 1):
            others = np.array([sizes[place][1 - side] for place in places])
            below = (behind[side] + before[side]) / (2 * others)[:, None]
            for place, each in zip(places, below, strict=True):
                shares[2 * place + side] = each[: sizes[place][side]]
    variances = np.empty(len(shares))
    for chosen, rows in by_size(shares):
        apart = rows - rows.sum(axis=1, keepdims=True) / rows.shape[1]
        variances[chosen] = (apart * apart).sum(axis=1) / (rows.shape[1] - 1)
    return variances.reshape(-1, 2).tolist()


def _ranks_among(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for both how many of the other's row come before each element; of equal ones the first's come first."""
    order = np.argsort(np.concatenate((first, second), axis=1), axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    width = first.shape[1]
    return place[:, :width] - np.arange(width), place[:, width:] - np.arange(second.shape[1])


def effective_counts(series: Sequence[np.ndarray]) -> list[float]:
    """Return how many independent samples each of many autocorrelated series is worth.

    Its size is divided by the integrated autocorrelation time of the ranks: the larger of the sum over pairs of lags
    while they stay positive (Geyer, Statistical Science 7, 1992), and of a first-order process with the correlation of
    neighbours, since short series show too little of the further lags. A correlation counts only above its standard
    error: otherwise its noise would widen the intervals of independent samples.
    """
    found = [float(each.size) for each in series]
    for places, rows in by_size(series):
        count = rows.shape[1]
        if count < LEAST_FOR_LAGS:
            continue
        ranks = np.empty(rows.shape)
        ascending = np.broadcast_to(np.arange(count) - (count - 1) / 2, rows.shape)
        np.put_along_axis(ranks, np.argsort(rows, axis=1, kind="stable"), ascending, axis=1)
        total = float(ranks[0] @ ranks[0])
        neighbours = _unbiased((ranks[:, 1:] * ranks[:, :-1]).sum(axis=1) / total, count)  # exact: halves and quarters
        alike = np.flatnonzero(neighbours > math.sqrt(1.0 / count))  # few; all lags take long
        for row, worth in zip(alike, _worth(ranks[alike], total), strict=True):
            found[places[row]] = worth
    return found


def _worth(ranks: np.ndarray, total: float) -> list[float]:
    """Return how many independent samples the series are worth of which neighbours are alike."""
    count = ranks.shape[1]
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(ranks, size)
    lags = min(count // 2, MOST_LAGS) // 2 * 2
    correlation = _unbiased(np.fft.irfft(spectrum * np.conj(spectrum), size)[:, : lags + 2] / total, count)
    neighbours = correlation[:, 1]
    pairs = correlation[:, 2:].reshape(len(ranks), lags // 2, 2).sum(axis=2)
    counted = (pairs > math.sqrt(2.0) * math.sqrt(1.0 / count)).cumprod(axis=1)  # up to the first that does not
    time = np.column_stack([1.0 + 2.0 * neighbours, 2.0 * pairs * counted]).cumsum(axis=1)[:, -1]
    worth: list[float] = np.maximum(2.0, count / np.maximum(time, (1.0 + neighbours) / (1.0 - neighbours))).tolist()
    return worth


def _unbiased(correlation: np.ndarray, count: int) -> np.ndarray:
    """Return the correlations of a series whose mean was taken off, which lowers each r by about (1 + 3 r) / n.

    Kendall, Biometrika 41, 1954.
    """
    return np.minimum((correlation + 1.0 / count) / (1.0 - 3.0 / count), HIGHEST_CORRELATION)


def sort_all(series: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return every series ascending."""
    found = list(series)
    for places, rows in by_size(series):
        rows.sort(axis=1)
        for place, row in zip(places, rows, strict=True):
            found[place] = row
    return found


def _constant(*ordered: np.ndarray) -> float:
    """Return the fewest samples of those of the series that are all equal."""
    return min((float(each.size) for each in ordered if each[0] == each[-1]), default=math.inf)


def _bounded(freedom: float, samples: int) -> float:
    return max(freedom, LEAST_FREEDOM) if samples >= MANY else freedom
