"""Samples that a clock read in ticks: equal ones are spread over their tick, so that quantiles are of grouped data."""

from __future__ import annotations

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
    if tick_ns <= 0.0 or ordered.size == 0:
        return ordered
    steps = ordered[1:] - ordered[:-1]
    apart = steps > SAME_TICK * tick_ns
    if apart.all():
        return ordered
    step = float(steps[apart].min(initial=tick_ns))
    of_tick = np.zeros(ordered.size, dtype=np.intp)
    apart.cumsum(out=of_tick[1:])
    counts = np.bincount(of_tick)
    first = counts.cumsum() - counts
    share = (np.arange(ordered.size) - first[of_tick] + 0.5) / counts[of_tick] - 0.5
    spread: np.ndarray = ordered + step * share
    return spread


def spread_ties(durations: np.ndarray, seed: int = 0, tick_ns: float = 0.0) -> tuple[np.ndarray, float]:
    """Return the durations with ties spread evenly over their tick, and the tick.

    A timer that counts in ticks (32 ns for CUDA's events) puts many samples on one value. The same samples always
    spread alike.

    Args:
        durations: ns, in the order in which they were taken.
        seed: orders equal samples; two series that are paired need two seeds.
        tick_ns: the step of the timer; where it is not known (0), the least difference among tied samples is taken.
    """
    ordered = np.sort(durations)
    steps = ordered[1:] - ordered[:-1]
    if tick_ns <= 0.0:
        steps = steps[steps > 0]
        if steps.size in (durations.size - 1, 0):
            return durations, 0.0
    elif (steps > SAME_TICK * tick_ns).all():
        return durations.astype(np.float64), tick_ns
    tick = tick_ns if tick_ns > 0.0 else float(steps.min())
    shuffled = _shuffled(seed, durations.size)
    by_value = shuffled[np.argsort(durations[shuffled], kind="stable")]
    spread = durations.astype(np.float64)
    spread[by_value] = spread_over_tick(spread[by_value], tick)
    return spread, tick


@lru_cache(maxsize=256)
def _shuffled(seed: int, count: int) -> np.ndarray:
    """Return the numbers below a count in an order that the seed decides; not to be written to."""
    return np.random.default_rng(seed).permutation(count)
