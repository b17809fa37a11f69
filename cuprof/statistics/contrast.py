"""How many times as long one trial takes as another, with an interval at any level; paired by round where possible.

Everything is done on logarithms, so that a ratio and its inverse are treated alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cuprof.statistics.critical import critical
from cuprof.statistics.noise import NO_NOISE, Noise
from cuprof.statistics.series import Series, are_together
from cuprof.statistics.shift import Shift, shifts_between, shifts_of_pairs
from cuprof.statistics.sums import Sums, find_quantiles
from cuprof.statistics.ticks import spread_all

LEAST_SHARED = 0.25
"""The shared rounds alone count when they are at least this part of the longer series. A trial that was known after 20
rounds says nothing about the other 1300 of a noisy one, and to leave those out would throw most of the samples away."""
CLEARLY_NARROWER = 0.95
"""Two trials of the same rounds are paired unless the interval without pairs is narrower by this factor: pairs cancel a
drift that both share, but without one they only add the outliers of both."""
ONE_SIGMA = 0.3173
"""Error rate of an interval of one standard deviation to either side."""
LEAST_PAIRS = 5
NEARLY = 1.0 + 1e-9
"""For a rule of thumb that must not be wrong by a rounding."""
TICK_SHARE = 0.125
"""What spreading ties over the timer's tick leaves unknown, as a share of the tick: the median of a duration whose
readings fall on two ticks is off by at most 0.09 of one, however they fall."""

BASE_SEED, NEW_SEED = 20231, 20232
"""Fixed, so that the same samples always give the same interval."""


@dataclass(frozen=True)
class Contrast:
    """How many times as long NEW takes as BASE.

    Args:
        paired: from the ratios within rounds; else from the ratios of every sample of NEW to every sample of BASE.
        shift: of the logarithms.
        known_error: standard error of the log ratio of series that are known by a summary.
        resolution: what the timer's ticks leave unknown of the log ratio.
        noise: of each side's time.
        bridge: how many times as long a reference took beside NEW as beside BASE, where the two were measured apart and
            the reference beside each; the ratio is freed of it, at the cost of its error.
    """

    paired: bool
    shift: Shift
    known_error: float = 0.0
    resolution: float = 0.0
    noise: Noise = NO_NOISE
    bridge: Contrast | None = None

    @property
    def shifts(self) -> tuple[Shift, ...]:
        """Return what its estimate and its intervals are made of."""
        return (self.shift, *(self.bridge.shifts if self.bridge else ()))

    @property
    def ratio(self) -> float:
        """Return the ratio NEW / BASE."""
        return math.exp(self.log_ratio)

    @cached_property
    def log_ratio(self) -> float:
        """Return the natural logarithm of the ratio NEW / BASE."""
        return self.shift.estimate - (self.bridge.log_ratio if self.bridge else 0.0)

    def log_bounds(self, error_rate: float) -> tuple[float, float]:
        """Return the interval of the log ratio that misses the truth with a chance of `error_rate`.

        The distances of independent sources of error from the estimate add up by squares, each side by itself (MOVER:
        Zou & Donner, Statistics in Medicine 27, 2008).
        """
        low, high = self.shift.bounds(error_rate)
        down, up = self.shift.estimate - low, high - self.shift.estimate
        if self.bridge:
            farther = self.bridge.log_bounds(error_rate)
            down = math.hypot(down, farther[1] - self.bridge.log_ratio)
            up = math.hypot(up, self.bridge.log_ratio - farther[0])
        known = self._known(error_rate)
        below, above = math.hypot(down, known), math.hypot(up, known)
        return self.log_ratio - below - self.resolution, self.log_ratio + above + self.resolution

    def may_differ(self, error_rate: float) -> bool:
        """Return whether the interval may exclude equal times: not where it is too wide even without the samples."""
        return abs(self.log_ratio) * NEARLY > self._known(error_rate) + self.resolution

    def _known(self, error_rate: float) -> float:
        """Return how far the interval reaches for what is known without samples."""
        summaries = critical(error_rate, math.inf) * self.known_error if self.known_error else 0.0
        return math.hypot(summaries, math.sqrt(2.0) * self.noise.reach(error_rate))


class Pair(NamedTuple):
    """Two series to be contrasted.

    Args:
        noise: of either time, beside what its samples show.
        bridge: see `Contrast`; not heeded where the series were taken together.
    """

    base: Series
    new: Series
    noise: Noise = NO_NOISE
    bridge: Contrast | None = None


def contrast(base: Series, new: Series, noise: Noise = NO_NOISE, bridge: Contrast | None = None) -> Contrast:
    """Return the contrast of two series; see `Pair`."""
    return contrast_all([Pair(base, new, noise, bridge)])[0]


def contrast_all(pairs: Sequence[Pair]) -> list[Contrast]:
    """Return the contrasts of many pairs of series, each as it is by itself and in a fraction of the time."""
    bases, news = (
        _logarithms([getattr(pair, side) for pair in pairs], seed)
        for side, seed in (("base", BASE_SEED), ("new", NEW_SEED))
    )
    shared = [_find_shared(pair) for pair in pairs]
    between, differences = [], []
    for pair, (base, _), (new, _), rounds in zip(pairs, bases, news, shared, strict=True):
        if rounds is not None:
            base, new = base[rounds[0]], new[rounds[1]]
            differences.append(new - base)
        elif pair.base.relative_error or pair.new.relative_error:
            differences.append(new - base)  # one of them is a single value
            continue
        between.append((base, new))
    apart, paired = iter(shifts_between(between)), iter(shifts_of_pairs(differences))
    found: list[tuple[Contrast, ...]] = []
    for pair, (base, base_tick), (new, new_tick), rounds in zip(pairs, bases, news, shared, strict=True):
        errors = pair.base.relative_error, pair.new.relative_error
        resolution = TICK_SHARE * (base_tick / pair.base.median_ns + new_tick / pair.new.median_ns)
        if rounds is not None:
            found.append(
                tuple(
                    Contrast(is_paired, next(shifts), 0.0, resolution, pair.noise)
                    for is_paired, shifts in ((True, paired), (False, apart))
                )
            )
            continue
        if not any(errors):
            shift = next(apart)
        else:
            shift = next(paired)
            if all(errors):  # two values, whose errors are known and not from samples
                shift = Shift(Sums(new, -base), 0.0, math.inf)
        found.append((Contrast(False, shift, math.hypot(*errors), resolution, pair.noise, pair.bridge),))
    foresee((each for ways in found if len(ways) > 1 for each in ways), ONE_SIGMA)
    return [_narrower(*ways) for ways in found]


def foresee(contrasts: Iterable[Contrast], error_rate: float | None = None) -> None:
    """Find what ratios and, at an error rate, intervals of many contrasts need at once; both then take little time."""
    find_quantiles(
        (shift.sums, rank)
        for each in contrasts
        for shift in each.shifts
        for rank in (shift.sums.rank(0.5), *(() if error_rate is None else shift.ranks(error_rate)))
    )


def _find_shared(pair: Pair) -> tuple[np.ndarray, np.ndarray] | None:
    """Return where the samples of shared rounds lie in both series; None where they are not compared by rounds."""
    base, new = pair.base, pair.new
    if not are_together(base, new):
        return None
    if base.rounds.size == new.rounds.size and (base.rounds == new.rounds).all() and (np.diff(base.rounds) > 0).all():
        ours = theirs = np.arange(base.rounds.size)  # most often, and found in a tenth of the time
    else:
        _, ours, theirs = np.intersect1d(base.rounds, new.rounds, return_indices=True)
    if ours.size < max(LEAST_PAIRS, LEAST_SHARED * max(base.rounds.size, new.rounds.size)):
        return None
    return ours, theirs


def _narrower(paired: Contrast, apart: Contrast | None = None) -> Contrast:
    """Return the narrower of two contrasts; a drift that both share can bias neither, as both saw all of it."""
    return apart if apart and _width(apart) < CLEARLY_NARROWER * _width(paired) else paired


def _width(each: Contrast) -> float:
    low, high = each.log_bounds(ONE_SIGMA)
    return high - low


def _logarithms(series: Sequence[Series], seed: int) -> list[tuple[np.ndarray, float]]:
    """Return the logarithms of the durations with their ties spread, and the tick in ns."""
    found = [(each.durations, 0.0) for each in series]
    for places, rows, ticks in spread_all([each.durations for each in series], [each.tick_ns for each in series], seed):
        logarithms = np.log(np.maximum(rows, np.maximum(ticks / 4, 1e-3)[:, None]))
        for place, row, tick in zip(places, logarithms, ticks.tolist(), strict=True):
            found[place] = row, tick
    return found
