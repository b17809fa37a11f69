"""How many times as long one trial takes as another, with an interval at any level; paired by round where possible.

Everything is done on logarithms, so that a ratio and its inverse are treated alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cuprof.comparison.shift import Shift, critical, shift_between, shift_of_pairs, spread_ties
from cuprof.measure.statistics import spread_over_tick

LEAST_SHARED = 0.25
"""The shared rounds alone count when they are at least this part of the longer series. A trial that was known after 20
rounds says nothing about the other 1300 of a noisy one, and to leave those out would throw most of the samples away."""
CLEARLY_NARROWER = 0.95
"""Two trials of the same rounds are paired unless the interval without pairs is narrower by this factor: pairs cancel a
drift that both share, but without one they only add the outliers of both."""
ONE_SIGMA = 0.3173
LEAST_PAIRS = 5
TICK_SHARE = 0.125
"""What spreading ties over the timer's tick leaves unknown, as a share of the tick: the median of a duration whose
readings fall on two ticks is off by at most 0.09 of one, however they fall."""

BASE_SEED, NEW_SEED = 20231, 20232
"""Fixed, so that the same samples always give the same interval."""


@dataclass(frozen=True)
class Series:
    """The counted samples of one measure of one trial, in the order in which they were taken.

    Args:
        durations: ns, not empty; a series of which only a summary is known has one value.
        rounds: number of each sample's round; empty where there were no rounds.
        together: samples of two series with the same mark and round were taken side by side; empty: never.
        tick_ns: the step in which its durations were read; 0 where that is not known.
        relative_error: for a series known by a summary: relative standard error of its value, else 0.
    """

    durations: np.ndarray
    rounds: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    together: str = ""
    relative_error: float = 0.0
    tick_ns: float = 0.0

    @cached_property
    def median_ns(self) -> float:
        """Return the median of the samples, as it is stored: of readings spread over their tick."""
        return float(np.median(spread_over_tick(np.sort(self.durations), self.tick_ns)))


@dataclass(frozen=True)
class Noise:
    """How much a time varies, beside what its samples show: from sweep to sweep, or from one preparation to another.

    Args:
        deviation: relative standard deviation of a time.
        freedom: degrees of freedom behind it; infinite where it is taken for known.
        least: a deviation taken for known, which holds where the other one reaches less far.
    """

    deviation: float = 0.0
    freedom: float = math.inf
    least: float = 0.0

    @property
    def value(self) -> float:
        """Return the relative standard deviation that is reckoned with."""
        return max(self.deviation, self.least)

    def times(self, factor: float) -> Noise:
        """Return the noise of times that vary by so many times as much."""
        return Noise(factor * self.deviation, self.freedom, factor * self.least)

    def reach(self, error_rate: float) -> float:
        """Return the deviation from the truth that a time exceeds with a chance of `error_rate`."""
        return max(critical(error_rate, self.freedom) * self.deviation, critical(error_rate, math.inf) * self.least)


NO_NOISE = Noise()


@dataclass(frozen=True)
class Contrast:
    """How many times as long NEW takes as BASE.

    Args:
        paired: from the ratios within rounds; else from the ratios of every sample of NEW to every sample of BASE.
        shift: of the logarithms.
        known_error: standard error of the log ratio of series that are known by a summary.
        resolution: what the timer's ticks leave unknown of the log ratio.
        noise: of each side's time.
    """

    paired: bool
    shift: Shift
    known_error: float = 0.0
    resolution: float = 0.0
    noise: Noise = NO_NOISE

    @property
    def log_ratio(self) -> float:
        """Return the natural logarithm of the ratio NEW / BASE."""
        return self.shift.estimate

    def log_bounds(self, error_rate: float) -> tuple[float, float]:
        """Return the interval of the log ratio that misses the truth with a chance of `error_rate`.

        The distances of independent sources of error from the estimate add up by squares, each side by itself (MOVER:
        Zou & Donner, Statistics in Medicine 27, 2008).
        """
        low, high = self.shift.bounds(error_rate)
        summaries = critical(error_rate, math.inf) * self.known_error
        known = math.hypot(summaries, math.sqrt(2.0) * self.noise.reach(error_rate))
        below, above = math.hypot(self.log_ratio - low, known), math.hypot(high - self.log_ratio, known)
        return self.log_ratio - below - self.resolution, self.log_ratio + above + self.resolution


def contrast(base: Series, new: Series, noise: Noise = NO_NOISE) -> Contrast:
    """Return the contrast of two series.

    Args:
        noise: of either time, beside what its samples show.
    """
    base_log, base_tick = _logarithms(base, BASE_SEED)
    new_log, new_tick = _logarithms(new, NEW_SEED)
    resolution = TICK_SHARE * (base_tick / base.median_ns + new_tick / new.median_ns)
    if are_together(base, new):
        _, ours, theirs = np.intersect1d(base.rounds, new.rounds, return_indices=True)
        if ours.size >= max(LEAST_PAIRS, LEAST_SHARED * max(base.rounds.size, new.rounds.size)):
            return _of_shared_rounds(base_log[ours], new_log[theirs], resolution, noise)
    known = math.hypot(base.relative_error, new.relative_error)
    shift = _unpaired(base, new, base_log, new_log)
    return Contrast(False, shift, known, resolution, noise)


def are_together(base: Series, new: Series) -> bool:
    """Return whether the samples of two series were taken side by side."""
    return bool(base.together) and base.together == new.together


def _of_shared_rounds(base_log: np.ndarray, new_log: np.ndarray, resolution: float, noise: Noise) -> Contrast:
    """Return the narrower of two contrasts; a drift that both share can bias neither, as both saw all of it."""
    paired = Contrast(True, shift_of_pairs(new_log - base_log), 0.0, resolution, noise)
    apart = Contrast(False, shift_between(base_log, new_log), 0.0, resolution, noise)
    return apart if _width(apart) < CLEARLY_NARROWER * _width(paired) else paired


def _width(each: Contrast) -> float:
    low, high = each.log_bounds(ONE_SIGMA)
    return high - low


def _unpaired(base: Series, new: Series, base_log: np.ndarray, new_log: np.ndarray) -> Shift:
    if not (base.relative_error or new.relative_error):
        return shift_between(base_log, new_log)
    if base.relative_error and new.relative_error:  # two values, whose errors are known and not from samples
        return Shift(new_log, -base_log, 1.0, 0.0, math.inf)
    return shift_of_pairs(new_log - base_log)  # one of them is a single value


def _logarithms(series: Series, seed: int) -> tuple[np.ndarray, float]:
    """Return the logarithms of the durations with their ties spread, and the tick in ns."""
    spread, tick = spread_ties(series.durations, seed, series.tick_ns)
    return np.log(np.maximum(spread, max(tick / 4, 1e-3))), tick
