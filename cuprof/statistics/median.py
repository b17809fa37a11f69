"""The statistics of one set of samples: the median, its interval without assumptions, the spread."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from cuprof.core.records import Sample, Summary
from cuprof.statistics import Floats

SAME_TICK = 0.05
"""Readings nearer than this share of a tick belong to one tick: a mean of several is rounded in its last digits."""


def spread_over_tick(ordered: Floats, tick_ns: float) -> Floats:
    """Return ascending samples with equal ones spread evenly over their tick.

    Args:
        ordered: ascending samples, ns.
        tick_ns: the step in which they were read; where two of them are nearer, that is the step. 0 spreads nothing.
    """
    steps = ordered[1:] - ordered[:-1]
    apart = steps > SAME_TICK * tick_ns
    if tick_ns <= 0.0 or apart.all():
        return ordered
    step = min(steps[apart].min(initial=np.inf), tick_ns)
    ends = np.append(np.flatnonzero(apart) + 1, ordered.size)
    sizes = np.diff(ends, prepend=0)
    place = np.arange(ordered.size) - (ends - sizes).repeat(sizes)
    spread: Floats = ordered + step * ((place + 0.5) / sizes.repeat(sizes) - 0.5)
    return spread


def quantile(ordered: Floats, share: float) -> float:
    """Return what `np.quantile` does, to the last digit, in a twentieth of its time."""
    place = share * (ordered.size - 1)
    part = place - int(place)
    low, high = float(ordered[int(place)]), float(ordered[min(int(place) + 1, ordered.size - 1)])
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


TICK_ERROR = 0.09
"""The median of readings that fall on two neighbouring ticks, each spread over its tick, is off by at most this share
of one: the largest of 0.5 / (1 - f) - 0.5 - f, where a share f of them falls on the farther tick."""


def summarise(samples: Sequence[Sample], confidence: float = 0.95, tick_ns: float = 0.0) -> Summary:
    """Describe the samples that are not excluded.

    Args:
        tick_ns: the step in which durations were read; 0 where it is finer than matters. Median, quartiles and interval
            are those of readings spread over their tick, and the interval is wider by what that leaves unknown.
        confidence: level of the interval of the median that is asked for. Samples too few for it give their whole range
            as the interval, and the level that the range has: 0.75 for three of them, 0 for one.

    Raises:
        ValueError: there is none.
    """
    counted = np.sort(np.array([sample.duration_ns for sample in samples if not sample.excluded], dtype=np.float64))
    if counted.size == 0:
        raise ValueError("no sample counts")
    (q1, median, q3), low, high = locate_median(counted, confidence, tick_ns)
    reached = range_level(counted.size) if is_mere_range(counted.size, confidence) else confidence
    return Summary(
        count=int(counted.size),
        excluded=len(samples) - int(counted.size),
        median_ns=median,
        low_ns=low,
        high_ns=high,
        confidence=reached,
        mean_ns=float(counted.mean()),
        stdev_ns=float(counted.std(ddof=1)) if counted.size > 1 else 0.0,
        min_ns=float(counted[0]),
        max_ns=float(counted[-1]),
        q1_ns=q1,
        q3_ns=q3,
    )


def is_narrow(durations_ns: Sequence[float], confidence: float, target: float, tick_ns: float = 0.0) -> bool:
    """Return whether the interval that `summarise` gives is within ± `target` of the median."""
    (_, median, _), low, high = locate_median(np.sort(np.array(durations_ns, dtype=np.float64)), confidence, tick_ns)
    return max(high - median, median - low) <= target * median


def locate_median(
    ordered: Floats, confidence: float, tick_ns: float = 0.0
) -> tuple[tuple[float, float, float], float, float]:
    """Return the quartiles of ascending samples, and both ends of the interval of their median; see `interval_rank`."""
    spread, rank = spread_over_tick(ordered, tick_ns), interval_rank(int(ordered.size), confidence)
    quartiles = quantile(spread, 0.25), quantile(spread, 0.5), quantile(spread, 0.75)
    low, high = float(spread[rank]), float(spread[ordered.size - 1 - rank])
    return quartiles, max(low - TICK_ERROR * tick_ns, 0.0), high + TICK_ERROR * tick_ns


def least_count(confidence: float) -> int:
    """Return how many samples there must be for their whole range to hold the median at this level: 6 for 95 %."""
    return math.ceil(1.0 - math.log2(1.0 - confidence))


def range_level(count: int) -> float:
    """Return how probably the whole range of `count` samples holds the median: 0 for one, 0.75 for three."""
    return 1.0 - 2.0 * 0.5**count


def is_mere_range(count: int, confidence: float) -> bool:
    """Return whether samples are too few for an interval of their median, so that it is their range.

    Args:
        confidence: the level that was asked for, or that a summary of these samples has: both give the same answer.
    """
    return range_level(count) <= confidence


def sure_time(median_ns: float, high_ns: float, count: int, confidence: float) -> float:
    """Return the time that ranks a trial: of samples too few for an interval the longest, else their median.

    Of many medians of few samples, such as a search's first looks, those that chance made short would be taken.

    Args:
        high_ns: upper end of the interval, or of the range; NaN where that is not known.
    """
    return high_ns if is_mere_range(count, confidence) and not math.isnan(high_ns) else median_ns


@functools.lru_cache(maxsize=8192)
def interval_rank(count: int, confidence: float) -> int:
    """Return the zero-based rank of the lower end of the interval of the median among `count` ascending samples.

    The interval is that of order statistics (David & Nagaraja, Order Statistics, 3rd ed., 7.1). With n independent
    samples of any continuous distribution, the median lies between the k-th smallest and the k-th largest with
    probability 1 - 2·P(Binomial(n, ½) < k). The widest k that still reaches `confidence` is taken; with too few samples
    for any, it is the whole range.
    """
    ranks = np.arange(1, max(1, count // 2))
    choices = np.concatenate(([0.0], np.cumsum(np.log((count + 1 - ranks) / ranks))))  # ln (count over rank), from 0 on
    below = np.cumsum(np.exp(choices - count * math.log(2.0)))  # P(Binomial(count, ½) <= rank)
    level = (1.0 - confidence) / 2.0 * (1.0 + 1e-9)  # rounding; what is exactly at the level is below it
    return max(0, int(np.searchsorted(below, level, side="right")) - 1)
