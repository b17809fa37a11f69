"""Samples that a clock read in ticks: equal ones are spread over their tick, so that quantiles are of grouped data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

SAME_TICK = 0.05
"""Readings nearer than this share of a tick are of the same one: a mean of several is rounded in its last digits."""


def spread_over_tick(ordered: np.ndarray, tick_ns: float) -> np.ndarray:
    """Return ascending samples with equal ones spread evenly over their tick.

    Args:
        ordered: ascending samples, ns.
        tick_ns: the step in which they were read; where two of them are nearer, that is the step. 0 spreads nothing.
    """
    if tick_ns <= 0.0 or ordered.size == 0 or (ordered[1:] - ordered[:-1] > SAME_TICK * tick_ns).all():
        return ordered
    spread: np.ndarray = _spread_rows(ordered[None], np.array([tick_ns]))[0]
    return spread


def _spread_rows(ordered: np.ndarray, tick_ns: np.ndarray) -> np.ndarray:
    """Return rows of ascending samples, each with a tick of its own above 0, with equal ones spread over it."""
    steps = ordered[:, 1:] - ordered[:, :-1]
    apart = steps > SAME_TICK * tick_ns[:, None]
    step = np.minimum(np.where(apart, steps, np.inf).min(axis=1, initial=np.inf), tick_ns)
    count, size = ordered.shape
    of_tick = np.zeros(ordered.shape, dtype=np.intp)
    apart.cumsum(axis=1, out=of_tick[:, 1:])
    of_tick += size * np.arange(count)[:, None]  # so that no two rows share a tick
    counts = np.bincount(of_tick.ravel(), minlength=count * size)
    first = (counts.cumsum() - counts)[of_tick] - size * np.arange(count)[:, None]
    share = (np.arange(size) - first + 0.5) / counts[of_tick] - 0.5
    spread: np.ndarray = ordered + step[:, None] * share
    return spread


def spread_all(
    series: Sequence[np.ndarray], ticks_ns: Sequence[float], seed: int = 0
) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Yield, of series of one size, their places, their durations with ties spread evenly over their tick, the ticks.

    A timer that counts in ticks (32 ns for CUDA's events) puts many samples on one value. The same samples always
    spread alike.

    Args:
        series: durations, ns, in the order in which they were taken.
        ticks_ns: the step of the timer of each; where that is not known (0), the least difference among tied samples is
            taken.
        seed: orders equal samples; two series that are paired need two seeds.
    """
    for places, rows in by_size(series):
        known = np.array([ticks_ns[place] for place in places], dtype=np.float64)
        steps = np.diff(np.sort(rows, axis=1), axis=1)
        positive = steps > 0
        least = np.where(positive, steps, np.inf).min(axis=1, initial=np.inf)
        is_tied = ~positive.all(axis=1) & np.isfinite(least)
        tick = np.where(known > 0, known, np.where(is_tied, least, 0.0))
        spread = (tick > 0) & ~(steps > SAME_TICK * tick[:, None]).all(axis=1)
        if spread.any():
            chosen = rows[spread]
            shuffled = _shuffled(seed, rows.shape[1])
            by_value = shuffled[np.argsort(chosen[:, shuffled], axis=1, kind="stable")]
            ordered = np.take_along_axis(chosen, by_value, axis=1)
            np.put_along_axis(chosen, by_value, _spread_rows(ordered, tick[spread]), axis=1)
            rows[spread] = chosen
        yield places, rows, tick


@lru_cache(maxsize=2048)
def _shuffled(seed: int, count: int) -> np.ndarray:
    """Return the numbers below a count in an order that the seed decides; not to be written to."""
    return np.random.default_rng(seed).permutation(count)


def by_size(series: Sequence[np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
    """Yield places and a new array, whose rows are the series there: all that have one size, a size at a time."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, each in enumerate(series):
        places[each.size].append(place)
    for chosen in places.values():
        yield chosen, np.array([series[place] for place in chosen], dtype=np.float64)
