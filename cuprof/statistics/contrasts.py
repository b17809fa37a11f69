"""How many times as long one trial takes as another, of many pairs, with an interval at any level.

Everything is done on logarithms, so that a ratio and its inverse are treated alike. The ratio is the Hodges-Lehmann
shift (Annals of Mathematical Statistics 34, 1963): of all differences between the samples of the two sides, or of the
averages of two differences within rounds. Its error is that of the placements (Brunner & Munzel, Biometrical Journal
42, 2000) or of Wilcoxon's signed ranks, raised by what the whole sweep says of autocorrelation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cuprof.statistics import Floats, Integers
from cuprof.statistics.correlation import UNKNOWN, Inflation, Neighbours, Pools, inflate, neighbours_of, pool, ranks_of
from cuprof.statistics.kernels import find_quantiles, placement_variances
from cuprof.statistics.samples import Samples, order_of, ragged

BASE_SEED, NEW_SEED = 20231, 20232
"""Fixed, so that the same samples always give the same interval; two, so that ties of paired series part."""
LEAST_SHARED = 5
"""Shared rounds from which on two series are compared by rounds."""
CLEARLY_NARROWER = 0.95
"""Series of the same rounds are paired unless the interval without pairs is narrower by this factor: pairs cancel a
drift that both share, but without one they only add the outliers of both."""
ONE_SIGMA = 0.3173
"""Error rate of an interval of one standard deviation to either side."""
LEAST_SAMPLES = 3
"""Fewer say nothing of their spread: they give no interval."""
FEW = 10
"""With fewer samples on one side, the degrees of freedom are those of that side alone. Satterthwaite's are too many
where the few happen to lie together: 2 samples beside 60 held a false difference in 59 % of groups of 20, 3 in 22 %."""
LEAST_FOR_NORMAL = 15
"""Pairs from which on the signed ranks, whose variance is known, go with the normal distribution."""
NEAR, FAR = 2.0, 0.40
"""The slope of the log ratio over the share of pairs is read this many deviations from the middle, and at this share
at most. Farther out it turns into the slope at that share."""
TICK_SHARE = 0.125
"""What spreading ties over the timer's tick leaves unknown, as a share of the tick: the median of a duration whose
readings fall on two ticks is off by at most 0.09 of one, however they fall."""
MOST_DOF = 1e6
"""Above it, Student's t is the normal distribution."""


@dataclass(frozen=True, eq=False)
class Contrasts:
    """How many times as long NEW takes as BASE: an entry for each of many pairs in every array.

    Args:
        estimate: natural logarithm of the ratio NEW / BASE.
        deviation: standard deviation, in shares of the pairs of samples; infinite where the samples are too few.
        dof: degrees of freedom behind it; infinite where it is known.
        slopes: log ratio a share, (n, 2, 2): below and above the estimate; near it and far from it.
        constant: the fewest samples of a series whose samples are all equal, infinite without one. That the median lies
            where all of n samples do is wrong with a chance of up to 2^(1-n).
        known_error: standard error of the log ratio of series that are known by a summary.
        resolution: what the timer's ticks leave unknown of the log ratio.
        noise: of each side's time beside its samples, (n, 3): the fields of `cuprof.statistics.noise.Noise`.
        paired: by rounds.
        bridges: how many times as long references took beside NEW as beside BASE; 1, known for sure, without one. The
            ratio of a pair that was measured apart, each side beside a reference, is freed of it at the cost of its
            error.
    """

    estimate: Floats
    deviation: Floats
    dof: Floats
    slopes: Floats
    constant: Floats
    known_error: Floats
    resolution: Floats
    noise: Floats
    paired: NDArray[np.bool_]
    bridges: Contrasts | None = None

    @classmethod
    def none_of(cls, count: int) -> Contrasts:
        """Return `count` contrasts with nothing known of them."""
        zeros, infinite = np.zeros(count), np.full(count, np.inf)
        noise = np.tile([0.0, np.inf, 0.0], (count, 1))
        slopes, paired = np.zeros((count, 2, 2)), np.zeros(count, dtype=bool)
        return cls(zeros, infinite, infinite, slopes, infinite, zeros, zeros, noise, paired)

    @classmethod
    def joined(cls, parts: list[Contrasts]) -> Contrasts:
        """Return the contrasts of some parts without bridges, one behind the other."""
        if not parts:
            return cls.none_of(0)
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        return cls(**arrays, bridges=None)

    def __len__(self) -> int:
        return int(self.estimate.size)

    @property
    def log_ratio(self) -> Floats:
        """Return the logarithm of the ratio, freed of the bridges."""
        return self.estimate if self.bridges is None else self.estimate - self.bridges.log_ratio

    def take(self, places: Integers) -> Contrasts:
        """Return some of the contrasts."""
        bridges = self.bridges and self.bridges.take(places)
        return replace(self, bridges=bridges, **{name: getattr(self, name)[places] for name in _ARRAYS})

    def put(self, places: Integers, others: Contrasts) -> Contrasts:
        """Return the contrasts with others in some places."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        for name, array in arrays.items():
            array[places] = getattr(others, name)
        return replace(self, **arrays)

    def interval(self, error_rate: float) -> tuple[Floats, Floats]:
        """Return both ends of the intervals of the log ratio that miss the truth with a chance of `error_rate`.

        The distances of independent sources of error from the estimate add up by squares, each side by itself (MOVER:
        Zou & Donner, Statistics in Medicine 27, 2008).
        """
        down, up = self._of_samples(error_rate)
        if self.bridges is not None:
            (low, high), middle = self.bridges.interval(error_rate), self.bridges.log_ratio
            down, up = np.hypot(down, high - middle), np.hypot(up, middle - low)
        beside, ratio = self.beside_samples(error_rate), self.log_ratio
        return ratio - np.hypot(down, beside) - self.resolution, ratio + np.hypot(up, beside) + self.resolution

    def beside_samples(self, error_rate: float) -> Floats:
        """Return how wide the noise beyond the samples, except for ticks, makes the intervals."""
        normal = critical(error_rate, np.full(len(self), np.inf))
        deviation, dof, least = self.noise.T
        reach = np.maximum(critical(error_rate, dof) * deviation, normal * least)
        found: Floats = np.hypot(normal * self.known_error, np.sqrt(2.0) * reach)
        return found

    def _of_samples(self, error_rate: float) -> tuple[Floats, Floats]:
        """Return how far the intervals reach down and up for the spread of the samples."""
        tells = np.isfinite(self.deviation)
        tells &= np.ldexp(1.0, 1 - np.minimum(self.constant, 2000.0).astype(np.int64)) <= error_rate
        deviation = np.where(tells, self.deviation, 0.0)
        reach, near = critical(error_rate, self.dof) * deviation, np.minimum(NEAR * deviation, FAR)
        far = np.clip((reach - near) / np.maximum(FAR - near, 1e-9), 0.0, 1.0)[:, None]
        slopes = self.slopes[:, :, 0] * (1 - far) + self.slopes[:, :, 1] * far
        down, up = np.where(tells, reach * slopes.T, np.inf)
        return down, up


_ARRAYS = tuple(field.name for field in fields(Contrasts) if field.name != "bridges")


def critical(error_rate: float, dof: Floats) -> Floats:
    """Return the t that |T| exceeds with this probability; the normal distribution's for infinite degrees."""
    from scipy import special  # whose import takes longer than the start of a command

    found: np.ndarray = -special.stdtrit(np.minimum(dof, MOST_DOF), error_rate / 2)
    return np.where(dof > MOST_DOF, -special.ndtri(error_rate / 2), found)


class Known(NamedTuple):
    """The correlation in the series of each pair: of BASE, of NEW, of the differences within rounds."""

    base: Pools
    new: Pools
    differences: Pools

    def take(self, places: Integers | slice) -> Known:
        """Return that of some of the pairs."""
        return Known(*(each.take(places) for each in self))


def contrast(base: Samples, new: Samples, noise: Floats | None = None, *, known: Known | None = None) -> Contrasts:
    """Return the contrasts of pairs of series: each as it is by itself, given its correlation.

    Args:
        base, new: the two series of each pair, in the same order.
        noise: (n, 3), see `Contrasts`; without it, the times have none beside their samples.
        known: without it, all series that are given are one pool, and so are all differences.
    """
    count = len(base)
    sides = _Series.of_samples(base, BASE_SEED), _Series.of_samples(new, NEW_SEED)
    differences, pairs, shared = _difference(base, new, sides)
    known = known or _pool_all(sides, differences).take(np.zeros(count, np.int64))
    found = _apart(sides, shared, known, count)
    found = _by_rounds(found, differences, known.differences, pairs)
    found = _summarised(found, base, new, sides, known)
    resolution = TICK_SHARE * (base.ticks() / base.medians() + new.ticks() / new.medians())
    return replace(found, resolution=resolution, noise=found.noise if noise is None else noise)


def learn(samples: Samples) -> Known:
    """Return what many series say together of the correlation in any pair of them: one pool, and one of differences.

    Args:
        samples: of one method and device. Of every two consecutive series that were taken together, the first with the
            second, the third with the fourth, the differences are looked at.
    """
    half = np.arange(len(samples) // 2)
    base, new = samples.take(2 * half), samples.take(2 * half + 1)
    sides = _Series.of_samples(base, BASE_SEED), _Series.of_samples(new, NEW_SEED)
    rest = _Series.of_samples(samples.take(np.arange(2 * half.size, len(samples))), BASE_SEED)
    return _pool_all((*sides, rest), _difference(base, new, sides)[0])


@dataclass(frozen=True)
class _Series:
    """The logarithms of many series, with what each shows of correlation.

    Args:
        values: in the order in which they were taken; `ordered` has each series ascending.
        ranks: of the values in their series, the middle one 0.
    """

    values: Floats
    ends: Integers
    ordered: Floats
    ranks: Floats
    neighbours: Neighbours

    @classmethod
    def of(cls, values: Floats, ends: Integers, order: Integers | None = None) -> _Series:
        """Return series, sorted anew where the given order may have equal values in any turn."""
        if order is None or (np.diff(values[order]) == 0).any():
            order = order_of(values, ends)
        ranks = ranks_of(order, ends)
        return cls(values, ends, values[order], ranks, neighbours_of(ranks, ends))

    @classmethod
    def of_samples(cls, samples: Samples, seed: int) -> _Series:
        values, order = samples.logarithms(seed)
        return cls.of(values, samples.ends, order)

    @property
    def counts(self) -> Integers:
        return self.neighbours.counts[:, 0]

    def constant(self) -> Floats:
        """Return the counts of the series whose samples are all equal, else infinity."""
        is_constant = self.ordered[self.ends - self.counts] == self.ordered[self.ends - 1]
        return np.where(is_constant, self.counts, np.inf)


def _difference(
    base: Samples, new: Samples, sides: tuple[_Series, _Series]
) -> tuple[_Series, Integers, tuple[Integers, Integers]]:
    """Return the differences within the rounds that both series of a pair took part in.

    Returns:
        The differences of the pairs that have enough of these rounds, which pairs they are of, and the places of the
        samples of all these rounds in all values of BASE and of NEW, pair by pair, by round.
    """
    together = (base.rotation == new.rotation) & (base.rotation != "")
    keys = []
    for samples in (base, new):
        number = np.arange(len(samples)).repeat(samples.counts)
        places = np.flatnonzero(together[number] & (samples.rounds >= 0))
        keys.append((places, (number[places] << 40) + samples.rounds[places]))
    (our_places, our_keys), (their_places, their_keys) = keys
    common, ours, theirs = np.intersect1d(our_keys, their_keys, return_indices=True)
    ours, theirs = our_places[ours], their_places[theirs]
    counts = np.bincount(common >> 40, minlength=len(base))
    enough = counts >= LEAST_SHARED
    kept = enough.repeat(counts)
    values = sides[1].values[theirs[kept]] - sides[0].values[ours[kept]]
    return _Series.of(values, np.cumsum(counts[enough])), np.flatnonzero(enough), (ours, theirs)


def _pool_all(series: Sequence[_Series], differences: _Series) -> Known:
    """Return what all series say as one pool, and all differences as another."""
    every = Neighbours(*map(np.concatenate, zip(*(each.neighbours for each in series), strict=True)))
    pooled = pool(every, UNKNOWN)
    return Known(pooled, pooled, pool(differences.neighbours, pooled.beside()))


def _apart(sides: tuple[_Series, _Series], shared: tuple[Integers, Integers], known: Known, count: int) -> Contrasts:
    """Return the contrasts from every sample of NEW to every sample of BASE."""
    base, new = sides
    asked = base.ordered, base.ends, new.ordered, new.ends
    middle = find_quantiles(*asked, np.full((count, 1), 0.5))[:, 0]
    placements = placement_variances(*asked, middle)
    parts, dofs = [], []
    for column, (side, pools, places) in enumerate(zip(sides, known[:2], shared, strict=True)):
        inflation = inflate(side.neighbours, pools)
        parts.append(inflation.factor * placements[:, column] / side.counts + _excess(side, places, inflation))
        dofs.append(inflation.dof)
    (part, other), (dof, other_dof) = parts, dofs
    total = part + other
    with np.errstate(invalid="ignore", divide="ignore"):  # of series without any spread, or of one sample
        together = total**2 / (part**2 / dof + other**2 / other_dof)
    few = np.where(base.counts <= new.counts, dof, other_dof)
    few = np.where(base.counts == new.counts, np.minimum(dof, other_dof), few)
    fewest = np.minimum(base.counts, new.counts)
    dof = np.where(total > 0, np.where(fewest < FEW, few, together), np.inf)
    deviation = np.where(fewest >= LEAST_SAMPLES, np.sqrt(total), np.inf)
    constant = np.minimum(base.constant(), new.constant())
    slopes = _slopes(asked, middle, deviation)
    none = Contrasts.none_of(count)
    return replace(none, estimate=middle, deviation=deviation, dof=dof, slopes=slopes, constant=constant)


def _excess(side: _Series, shared: Integers, inflation: Inflation) -> Floats:
    """Return the variance, in shares, that rounds add in which one side alone took part and which disagree with others.

    If the times drift, those rounds tell of another time than the shared ones.
    """
    number = np.arange(side.ends.size).repeat(side.counts)
    is_shared = np.zeros(side.values.size, dtype=bool)
    is_shared[shared] = True
    kept = np.bincount(number[is_shared], minlength=side.ends.size)
    alone = side.counts - kept
    sums = np.bincount(number, np.where(is_shared, 0.0, side.ranks), side.ends.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        # The middle of the ranks is 0, so this is the share of pairs in which the lonely one is longer, less a half.
        distance = sums * side.counts / (alone * kept) / side.counts
        expected = inflation.factor / 12 * (1 / alone + 1 / kept)
        found = np.where((alone > 0) & (kept > 0), np.maximum(distance**2 - expected, 0.0), 0.0)
    return found * (alone / side.counts) ** 2


def _signed_ranks(differences: _Series, pools: Pools) -> Contrasts:
    """Return the contrasts by the averages of two differences (Wilcoxon's signed ranks)."""
    count, counts, ends = differences.ends.size, differences.counts.astype(np.float64), differences.ends
    backwards = (2 * ends - differences.counts - 1).repeat(differences.counts) - np.arange(differences.values.size)
    asked = -differences.ordered[backwards] / 2, ends, differences.ordered / 2, ends
    middle = find_quantiles(*asked, np.full((count, 1), 0.5))[:, 0]
    inflation = inflate(differences.neighbours, pools)
    deviation = np.sqrt(inflation.factor * (2 * counts + 1) / (6 * counts * (counts + 1)))
    deviation = np.where(counts >= LEAST_SAMPLES, deviation, np.inf)
    dof = np.where(counts >= LEAST_FOR_NORMAL, inflation.model_dof, inflation.dof)
    return replace(
        Contrasts.none_of(count),
        estimate=middle,
        deviation=deviation,
        dof=dof,
        slopes=_slopes(asked, middle, deviation),
        constant=differences.constant(),
        paired=np.ones(count, dtype=bool),
    )


def _slopes(asked: tuple[Floats, Integers, Floats, Integers], middle: Floats, deviation: Floats) -> Floats:
    """Return the slopes of `Contrasts`: how far the quantiles at two shares to either side lie from the middle."""
    near = np.minimum(NEAR * np.where(np.isfinite(deviation), deviation, FAR), FAR)
    aside = np.column_stack((near, np.full(near.size, FAR)))
    aside = np.where(aside > 0, aside, 1e-3)
    shares = np.hstack((0.5 - aside, 0.5 + aside))
    distances = np.abs(find_quantiles(*asked, shares) - middle[:, None])
    found: Floats = distances.reshape(-1, 2, 2) / aside[:, None, :]
    return found


def _by_rounds(apart: Contrasts, differences: _Series, pools: Pools, pairs: Integers) -> Contrasts:
    """Return the contrasts by rounds where these can be, and are not clearly wider."""
    if not pairs.size:
        return apart
    paired = _signed_ranks(differences, pools.take(pairs))
    low, high = paired.interval(ONE_SIGMA)
    least, most = apart.take(pairs).interval(ONE_SIGMA)
    kept = np.flatnonzero(~(most - least < CLEARLY_NARROWER * (high - low)))
    return apart.put(pairs[kept], paired.take(kept))


def _summarised(
    found: Contrasts, base: Samples, new: Samples, sides: tuple[_Series, _Series], known: Known
) -> Contrasts:
    """Return the contrasts with those in place in which a side is known by its mean and standard error alone."""
    error, is_base = np.hypot(base.standard_error, new.standard_error), base.standard_error > 0
    for series, side, other, pools, sign, chosen in (
        (new, sides[1], sides[0], known.new, 1, np.flatnonzero(is_base)),
        (base, sides[0], sides[1], known.base, -1, np.flatnonzero(~is_base & (new.standard_error > 0))),
    ):
        if not chosen.size:
            continue
        counts = side.counts[chosen]
        places, ends = ragged(side.ends[chosen] - counts, counts)
        values = side.values[places] - other.values[other.ends[chosen] - 1].repeat(counts)
        differences = _Series.of(sign * values, ends)
        one = _signed_ranks(differences, pools.take(chosen))
        is_value = series.standard_error[chosen] > 0
        one = replace(
            one,
            deviation=np.where(is_value, 0.0, one.deviation),
            constant=np.where(is_value, np.inf, one.constant),
            dof=np.where(is_value, np.inf, one.dof),
            known_error=error[chosen],
            paired=np.zeros(chosen.size, dtype=bool),
        )
        found = found.put(chosen, one)
    return found
