"""How many times as long one trial takes as another, with an interval at any level; paired by round where possible.

Everything is done on logarithms, so that a ratio and its inverse are treated alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cuprof.statistics.noise import NO_NOISE, Noise, critical
from cuprof.statistics.series import Series, are_together
from cuprof.statistics.shift import Shift, shift_between, shift_of_pairs
from cuprof.statistics.ticks import spread_ties

LEAST_SHARED = 0.25
"""The shared rounds alone count when they are at least this part of the longer series. A trial that was known after 20
rounds says nothing about the other 1300 of a noisy one, and to leave those out would throw most of the samples away."""
CLEARLY_NARROWER = 0.95
"""Two trials of the same rounds are paired unless the interval without pairs is narrower by this factor: pairs cancel a
drift that both share, but without one they only add the outliers of both."""
ONE_SIGMA = 0.3173
"""Error rate of an interval of one standard deviation to either side."""
LEAST_PAIRS = 5
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
    def ratio(self) -> float:
        """Return the ratio NEW / BASE."""
        return math.exp(self.log_ratio)

    @property
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
        summaries = critical(error_rate, math.inf) * self.known_error
        known = math.hypot(summaries, math.sqrt(2.0) * self.noise.reach(error_rate))
        below, above = math.hypot(down, known), math.hypot(up, known)
        return self.log_ratio - below - self.resolution, self.log_ratio + above + self.resolution


def contrast(base: Series, new: Series, noise: Noise = NO_NOISE, bridge: Contrast | None = None) -> Contrast:
    """Return the contrast of two series.

    Args:
        noise: of either time, beside what its samples show.
        bridge: see `Contrast`; not heeded where the series were taken together.
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
    return Contrast(False, shift, known, resolution, noise, bridge)


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
