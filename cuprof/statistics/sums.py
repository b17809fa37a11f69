"""The sums of all pairs of elements of two series, searched by rank; they are too many to be listed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

SKETCHED = 48
"""So many elements of each series stand for all of them where a search begins."""
ENOUGH = 1e-13
"""Width of the bounds, relative to the largest sum, at which a search ends: the sums still between them are equal."""


@dataclass(frozen=True)
class Sums:
    """The sums of one element of `first` and one of `second`, both ascending."""

    first: np.ndarray
    second: np.ndarray

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self.first.size * self.second.size

    @property
    def lowest(self) -> float:
        """Return the smallest."""
        return float(self.first[0] + self.second[0])

    @property
    def highest(self) -> float:
        """Return the largest."""
        return float(self.first[-1] + self.second[-1])

    def select(self, rank: int) -> float:
        """Return the sum of a rank; the smallest has rank 1.

        Bounds of it are drawn together until few sums lie between, which are listed. A sketch of the sums gives the
        first bounds; the next are interpolated, as the number of sums grows about evenly so near, or are halfway, where
        it does not.
        """
        if self._sketch.size == self.count:
            return float(self._sketch[rank - 1])
        low, high = self._first_bounds(rank)
        starts, ends = self._ranks(low), self._ranks(high)
        below, reached = int(starts.sum()), int(ends.sum())
        if below >= rank:
            low, starts, below = self.lowest, np.zeros_like(starts), 0
        if reached < rank:
            high, ends, reached = self.highest, np.full_like(ends, self.second.size), self.count
        enough, halfway = ENOUGH * max(abs(self.lowest), abs(self.highest)), False
        while reached - below > self.first.size + self.second.size:
            if high - low <= enough:
                return high
            part = 0.5 if halfway else (rank - below) / (reached - below)
            middle = low + part * (high - low)
            ranks = self._ranks(middle)
            count, before = int(ranks.sum()), reached - below
            if count >= rank:
                high, ends, reached = middle, ranks, count
            else:
                low, starts, below = middle, ranks, count
            halfway = not halfway and reached - below > before / 4
        counts = ends - starts
        within = np.arange(reached - below) + (starts - counts.cumsum() + counts).repeat(counts)
        sums = self.first.repeat(counts) + self.second[within]
        sums.partition(rank - below - 1)
        return float(sums[rank - below - 1])

    @cached_property
    def _sketch(self) -> np.ndarray:
        """Return the sums of some elements, evenly spaced, in order: all sums where there are few elements."""
        first, second = (
            each if each.size <= SKETCHED else each[((np.arange(SKETCHED) + 0.5) * each.size / SKETCHED).astype(int)]
            for each in (self.first, self.second)
        )
        sums: np.ndarray = (first[:, None] + second).ravel()
        sums.sort()
        return sums

    def _first_bounds(self, rank: int) -> tuple[float, float]:
        """Return what is probably below and above the sum of a rank."""
        last = self._sketch.size - 1
        place, beside = rank * self._sketch.size // self.count, self._sketch.size // SKETCHED
        return float(self._sketch[max(place - beside, 0)]), float(self._sketch[min(place + beside, last)])

    def _ranks(self, value: float) -> np.ndarray:
        """Return, for every element of the first, how many elements of the second give a sum up to this value."""
        return np.asarray(self.second.searchsorted(value - self.first, side="right"))
