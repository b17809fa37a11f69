"""Samples that a clock read in ticks: equal ones are spread over their tick, so that quantiles are of grouped data."""

from __future__ import annotations

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
    steps = np.diff(ordered)
    apart = steps > SAME_TICK * tick_ns
    step = float(steps[apart].min(initial=tick_ns))
    counts = np.diff(np.concatenate(([0], np.flatnonzero(apart) + 1, [ordered.size])))
    first = np.repeat(np.cumsum(counts) - counts, counts)
    share = (np.arange(ordered.size) - first + 0.5) / np.repeat(counts, counts) - 0.5
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
    values = np.unique(durations)
    if tick_ns <= 0.0 and (values.size == durations.size or values.size < 2):
        return durations, 0.0
    tick = tick_ns if tick_ns > 0.0 else float(np.diff(values).min())
    shuffled = np.random.default_rng(seed).permutation(durations.size)
    by_value = shuffled[np.argsort(durations[shuffled], kind="stable")]
    spread = durations.astype(np.float64)
    spread[by_value] = spread_over_tick(spread[by_value], tick)
    return spread, tick
