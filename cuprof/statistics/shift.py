"""How far one set of samples is shifted against another: the Hodges-Lehmann estimate and its interval at any level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cuprof.statistics.critical import criticals
from cuprof.statistics.sums import Sums, blocks, find_quantiles, ranks_of, stack
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


class Shift(NamedTuple):
    """The middle of all sums of one element of `first` and one of `second`, and bounds of the truth behind it.

    For two samples x and y, the sums of y and -x are all differences, and their median is the shift by Hodges and
    Lehmann (Annals of Mathematical Statistics 34, 1963); for one sample d, half of the sums of d and d are the Walsh
    averages. The share of sums below the true shift has the mean ½ and the standard deviation `deviation`, so the
    bounds are the quantiles at ½ ± t · `deviation`. Where these lie beyond 0 and 1, samples are too few for the level:
    then the whole range is taken and stretched by as much as the quantile lies beyond.

    Args:
        estimate: the median of the sums.
        deviation: of the share.
        freedom: degrees of freedom behind `deviation`; infinite where it is known.
        constant: the fewest samples of a series whose samples are all equal; infinite without one. That the median lies
            where all of n samples do is wrong with a chance of up to 2^(1-n).
    """

    sums: Sums
    estimate: float
    deviation: float
    freedom: float
    constant: float = math.inf

    def bounds(self, error_rate: float) -> tuple[float, float]:
        """Return the interval that misses the true shift with a chance of `error_rate`."""
        low, high = Shifts([self]).bounds(error_rate, np.zeros(1, dtype=np.intp))
        return float(low[0]), float(high[0])


class Shifts:
    """Many shifts, whose bounds are found together."""

    def __init__(self, shifts: Sequence[Shift]) -> None:
        self._sums = [shift.sums for shift in shifts]
        figures = np.array([shift[1:] for shift in shifts]).reshape(-1, 4)
        self.estimates, self._deviation, self._freedom, self._constant = figures.T
        self._size = np.array([sums.size for sums in self._sums])
        self._ranks = np.zeros(
            (2, len(shifts)), dtype=np.int64
        )  # a level is mostly near the one before: the same ranks
        self._quantiles = np.zeros((2, len(shifts)))

    def bounds(self, error_rate: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the intervals of the shifts at some places; see `Shift.bounds`."""
        deviation, fewest = self._deviation[places], np.minimum(self._constant[places], 2000.0)
        tells = np.isfinite(deviation) & (np.ldexp(1.0, 1 - fewest.astype(np.int64)) <= error_rate)
        reach = criticals(error_rate, self._freedom[places]) * np.where(tells, deviation, 0.0)
        of_range = tells & (reach < 0.5)
        chosen = places[of_range]
        for side, shares in enumerate((0.5 - reach, 0.5 + reach)):
            ranks = ranks_of(shares[of_range], self._size[chosen])
            other = ranks != self._ranks[side, chosen]
            anew = chosen[other]
            self._ranks[side, anew] = ranks[other]
            self._quantiles[side, anew] = find_quantiles([self._sums[place] for place in anew], ranks[other])
        low, high = np.where(tells, self._quantiles[:, places], [[-math.inf], [math.inf]])
        for place in np.flatnonzero(tells & ~of_range).tolist():
            sums, estimate, stretch = self._sums[places[place]], self.estimates[places[place]], 2.0 * reach[place]
            low[place] = estimate - stretch * (estimate - sums.factor * sums.lowest)
            high[place] = estimate + stretch * (sums.factor * sums.highest - estimate)
        return low, high


def shifts_of_pairs(series: Sequence[np.ndarray]) -> list[Shift]:
    """Return the shift of each of many paired samples (Wilcoxon's signed-rank statistic).

    Args:
        series: differences, in the order in which they were taken.
    """
    ordered, count, constant = order_all(series)
    sizes = np.array([each.size for each in ordered])
    # The variance of the share of Walsh averages below the centre of a symmetric distribution.
    deviation = np.where(sizes >= LEAST_SAMPLES, np.sqrt((2 * count + 1) / (6 * count * (count + 1))), math.inf)
    # With few samples, or their independent number only estimated, the uncertainty is taken for that of a variance.
    known = (count == sizes) & (count >= LEAST_FOR_NORMAL)
    freedom = np.where(known, math.inf, _bounded(count - 1, sizes))
    return _shifts([Sums(each, each, 0.5) for each in ordered], deviation, freedom, constant)


def shifts_between(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Shift]:
    """Return the shift from the first to the second of each pair of series, in the order in which they were taken.

    The two may differ in spread and number: the variance is that of the placements, with Satterthwaite's degrees of
    freedom (Brunner & Munzel, Biometrical Journal 42, 2000).
    """
    (bases, count, constant), (news, other_count, other_constant) = (
        order_all([pair[side] for pair in pairs]) for side in (0, 1)
    )
    found = [Sums(y, -x[::-1]) for x, y in zip(bases, news, strict=True)]
    fewest = np.array([min(x.size, y.size) for x, y in zip(bases, news, strict=True)])
    middles = _middles(found)
    told = np.flatnonzero(fewest >= LEAST_SAMPLES)
    part, other_part = np.full((2, len(found)), math.inf)
    part[told], other_part[told] = placement_variances([(bases[place], news[place]) for place in told], middles[told]).T
    part, other_part = part / count, other_part / other_count
    total = part + other_part
    with np.errstate(invalid="ignore", divide="ignore"):  # where it is not asked for
        freedom = total**2 / (part**2 / (count - 1) + other_part**2 / (other_count - 1))
    freedom = _bounded(np.where(fewest < FEW, np.minimum(count, other_count) - 1, freedom), fewest)
    is_known = (total <= 0) | np.isinf(total)
    least = np.minimum(constant, other_constant)
    return _shifts(found, np.sqrt(total), np.where(is_known, math.inf, freedom), least, middles)


def _shifts(
    sums: Sequence[Sums],
    deviation: np.ndarray,
    freedom: np.ndarray,
    constant: np.ndarray,
    estimates: np.ndarray | None = None,
) -> list[Shift]:
    estimates = _middles(sums) if estimates is None else estimates
    return list(map(Shift, sums, *(each.tolist() for each in (estimates, deviation, freedom, constant))))


def _middles(sums: Sequence[Sums]) -> np.ndarray:
    """Return the median of each of many sums."""
    return find_quantiles(sums, ranks_of(0.5, np.array([each.size for each in sums])))


def placement_variances(pairs: Sequence[tuple[np.ndarray, np.ndarray]], shifts: np.ndarray) -> np.ndarray:
    """Return the variance of the shares of the other series below each sample, for both series of many pairs: (n, 2).

    Args:
        pairs: ascending series.
        shifts: what the first of each pair is moved by.
    """
    shares = [np.empty(0)] * (2 * len(pairs))
    sizes = [(first.size, second.size) for first, second in pairs]
    for places in blocks(sizes, [sum(each) for each in sizes]):
        first, second = (stack([pairs[place][side] for place in places]) for side in (0, 1))
        first += shifts[places][:, None]
        behind, has_ties = _ranks_among(first, second)
        before = _ranks_among(second, first)[0][::-1] if has_ties else behind  # of ties, which count by half
        for side in (0, 1):
            others = np.array([sizes[place][1 - side] for place in places])
            below = (behind[side] + before[side]) / (2 * others)[:, None]
            for place, each in zip(places, below, strict=True):
                shares[2 * place + side] = each[: sizes[place][side]]
    variances = np.empty(len(shares))
    for chosen, rows in by_size(shares):
        apart = rows - rows.sum(axis=1, keepdims=True) / rows.shape[1]
        variances[chosen] = (apart * apart).sum(axis=1) / (rows.shape[1] - 1)
    return variances.reshape(-1, 2)


def _ranks_among(first: np.ndarray, second: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], bool]:
    """Return for both how many of the other's row come before each element, and whether any finite ones are equal.

    Of equal ones the first's come first.
    """
    rows = np.concatenate((first, second), axis=1)
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    has_ties = bool(((ascending[:, 1:] == ascending[:, :-1]) & np.isfinite(ascending[:, 1:])).any())
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    width = first.shape[1]
    return (place[:, :width] - np.arange(width), place[:, width:] - np.arange(second.shape[1])), has_ties


def order_all(series: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return many series ascending, how many independent samples each is worth, and `Shift.constant` of each."""
    ordered, worth, constant = list(series), np.empty(len(series)), np.full(len(series), math.inf)
    for places, rows in by_size(series):
        order, ascending = _order(rows)
        worth[places] = effective_counts(order)
        constant[places] = np.where(ascending[:, 0] == ascending[:, -1], rows.shape[1], math.inf)
        for place, row in zip(places, ascending, strict=True):
            ordered[place] = row
    return ordered, worth, constant


def _order(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which elements make each row ascending, of equal ones the first first, and the ascending rows."""
    order = np.argsort(
        rows, axis=1
    )  # which keeps no order of equal ones, and takes a quarter of the time: few rows have
    ascending = np.take_along_axis(rows, order, axis=1)
    tied = (ascending[:, 1:] == ascending[:, :-1]).any(axis=1)
    order[tied] = np.argsort(rows[tied], axis=1, kind="stable")
    return order, ascending


def effective_counts(order: np.ndarray) -> np.ndarray:
    """Return how many independent samples each of many autocorrelated series, of one size, is worth.

    Its size is divided by the integrated autocorrelation time of the ranks: the larger of the sum over pairs of lags
    while they stay positive (Geyer, Statistical Science 7, 1992), and of a first-order process with the correlation of
    neighbours, since short series show too little of the further lags. A correlation counts only above its standard
    error: otherwise its noise would widen the intervals of independent samples.

    Args:
        order: for each series, which elements make it ascending.
    """
    count = order.shape[1]
    found = np.full(len(order), float(count))
    if count < LEAST_FOR_LAGS:
        return found
    ranks = np.empty(order.shape)
    ascending = np.broadcast_to(np.arange(count) - (count - 1) / 2, order.shape)
    np.put_along_axis(ranks, order, ascending, axis=1)
    total = float(ranks[0] @ ranks[0])
    neighbours = _unbiased((ranks[:, 1:] * ranks[:, :-1]).sum(axis=1) / total, count)  # exact: halves and quarters
    alike = neighbours > math.sqrt(1.0 / count)  # few; all lags take long
    found[alike] = _worth(ranks[alike], total)
    return found


def _worth(ranks: np.ndarray, total: float) -> np.ndarray:
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
    worth: np.ndarray = np.maximum(2.0, count / np.maximum(time, (1.0 + neighbours) / (1.0 - neighbours)))
    return worth


def _unbiased(correlation: np.ndarray, count: int) -> np.ndarray:
    """Return the correlations of a series whose mean was taken off, which lowers each r by about (1 + 3 r) / n.

    Kendall, Biometrika 41, 1954.
    """
    return np.minimum((correlation + 1.0 / count) / (1.0 - 3.0 / count), HIGHEST_CORRELATION)


def _bounded(freedom: np.ndarray, samples: np.ndarray) -> np.ndarray:
    return np.where(samples >= MANY, np.maximum(freedom, LEAST_FREEDOM), freedom)
