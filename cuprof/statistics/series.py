"""The samples of one measure of one trial, as they are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cuprof.statistics.ticks import spread_over_tick


class Quartiles(NamedTuple):
    """The quartiles of samples, ns; `median_ns` is the second."""

    q1_ns: float
    median_ns: float
    q3_ns: float


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

    @property
    def size(self) -> int:
        """Return how many samples there are."""
        return self.durations.size

    @cached_property
    def spread(self) -> np.ndarray:
        """Return the samples ascending, ns, equal ones spread over their tick."""
        return spread_over_tick(np.sort(self.durations), self.tick_ns)

    @cached_property
    def quartiles(self) -> Quartiles:
        """Return the quartiles of the spread samples, which are those that are stored with a timing."""
        return quartiles(self.spread)

    @property
    def median_ns(self) -> float:
        """Return the median of the samples, as it is stored."""
        return self.quartiles.median_ns


def quartiles(spread: np.ndarray) -> Quartiles:
    """Return the quartiles of samples, ns, whose ties are spread."""
    return Quartiles(*(_quantile(spread, share) for share in (0.25, 0.5, 0.75)))


def _quantile(ordered: np.ndarray, share: float) -> float:
    """Return what `np.quantile` does, to the last digit, in a twentieth of its time."""
    place = share * (ordered.size - 1)
    part = place - int(place)
    low, high = float(ordered[int(place)]), float(ordered[min(int(place) + 1, ordered.size - 1)])
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def are_together(base: Series, new: Series) -> bool:
    """Return whether the samples of two series were taken side by side."""
    return bool(base.together) and base.together == new.together
