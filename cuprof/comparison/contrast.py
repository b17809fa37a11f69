"""The ratio of two trials' times and its interval at any level, paired by round where rounds are shared.

Everything is done on logarithms: a ratio and its inverse are treated alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from cuprof.comparison.order_statistics import MedianBounds, spread_ties

LEAST_SHARED = 0.5
"""Rounds are paired when both trials have at least this share of the longer one's rounds in common. A trial that was
known after 20 rounds says nothing about the other 1300 of a noisy one, and to pair would throw those away."""
TICK_SHARE = 0.125
"""What spreading ties over the timer's tick leaves unknown, as a share of the tick: the median of a duration that
falls on two ticks is off by at most 0.09 of one, whatever part of the samples falls on each."""
LEAST_PAIRS = 5


@dataclass(frozen=True)
class Series:
    """The counted samples of one measure of one trial, in the order in which they were taken.

    Args:
        durations: ns, not empty.
        rounds: number of each sample's round; empty where there were no rounds.
        together: samples of two series with the same mark and round were taken side by side; empty: never.
        median_error: for a series known only by a summary: relative standard error of its one value, else 0.
    """

    durations: np.ndarray
    rounds: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    together: str = ""
    median_error: float = 0.0

    @property
    def median_ns(self) -> float:
        """Return the median of the samples."""
        return float(np.median(self.durations))


@dataclass(frozen=True)
class Contrast:
    """How many times as long NEW takes as BASE.

    Args:
        paired: from the ratios of single rounds, whose median it is; else the ratio of the two medians.
        log_ratio: natural logarithm of the ratio.
        parts: bounds of the rounds' log ratios when paired, else of BASE's and NEW's log medians.
        known_error: standard error of the log ratio beside what the samples show (noise between sweeps, summaries).
        resolution: what the timer's ticks leave unknown, on the log ratio.
    """

    paired: bool
    log_ratio: float
    parts: tuple[MedianBounds, ...]
    known_error: float = 0.0
    resolution: float = 0.0

    @property
    def ratio(self) -> float:
        """Return the ratio NEW / BASE."""
        return math.exp(self.log_ratio)

    @property
    def count(self) -> int:
        """Return the number of samples (pairs) of the side that has fewer."""
        return min(int(part.ordered.size) for part in self.parts)

    def log_bounds(self, error_rate: float) -> tuple[float, float]:
        """Return the interval of the log ratio that misses the truth with a chance of `error_rate`.

        The distances of several independent sources from the estimate add up by squares, each side by itself (MOVER:
        Zou & Donner, Statistics in Medicine 27(10), 2008).
        """
        below, above = [], []
        for sign, part in zip((1,) if self.paired else (-1, 1), self.parts, strict=True):
            low, high = part.at(error_rate)
            down, up = part.median - low, high - part.median
            below.append(down if sign > 0 else up)
            above.append(up if sign > 0 else down)
        if self.known_error:
            reach = -NormalDist().inv_cdf(error_rate / 2) * self.known_error
            below.append(reach)
            above.append(reach)
        return (
            self.log_ratio - math.hypot(*below) - self.resolution,
            self.log_ratio + math.hypot(*above) + self.resolution,
        )


def contrast(base: Series, new: Series, noise: float = 0.0) -> Contrast:
    """Return the contrast of two series.

    Args:
        noise: relative standard deviation of a trial's median from sweep to sweep, beside what the samples within one
            sweep show; does not apply to series that were taken together.
    """
    together = bool(base.together) and base.together == new.together
    base_ns, base_tick = _spread(base, new)
    new_ns, new_tick = _spread(new, base)
    resolution = TICK_SHARE * (base_tick / base.median_ns + new_tick / new.median_ns)
    if together:
        _, ours, theirs = np.intersect1d(base.rounds, new.rounds, return_indices=True)
        if ours.size >= max(LEAST_PAIRS, LEAST_SHARED * max(base.rounds.size, new.rounds.size)):
            bounds = MedianBounds.of(np.log(new_ns[theirs] / base_ns[ours]))
            return Contrast(True, bounds.median, (bounds,), 0.0, resolution)
    parts = MedianBounds.of(np.log(base_ns)), MedianBounds.of(np.log(new_ns))
    known = math.hypot(base.median_error, new.median_error, 0.0 if together else noise * math.sqrt(2.0))
    return Contrast(False, parts[1].median - parts[0].median, parts, known, resolution)


def _spread(series: Series, other: Series) -> tuple[np.ndarray, float]:
    """Return positive durations with their ties spread, and the tick."""
    spread, tick = spread_ties(series.durations)
    return np.maximum(spread, max(tick, 1e-3) / 4), tick
