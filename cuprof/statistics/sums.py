"""The sums of all pairs of elements of two series, searched by rank; they are too many to be kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

SKETCHED = 48
"""So many elements of each series stand for all of them where a search begins."""
ENOUGH = 1e-13
"""Width of the bounds, relative to the largest sum, at which a search ends: the sums still between them are equal."""
BESIDE = 1e-9
"""How near the middle of the last half of the range comes to a sum, relative to the range's ends or 1."""
MOST_LISTED = 1 << 16
"""More sums than this are searched; fewer are listed, those of many pairs of series at once."""
AT_ONCE = 1 << 17
"""Sums that are listed at once, so that they stay in the processor's cache."""


@dataclass(frozen=True)
class Sums:
    """The sums of one element of `first` and one of `second`, both ascending.

    Args:
        factor: what a quantile is multiplied by: 1, or ½ for averages.
    """

    first: np.ndarray
    second: np.ndarray
    factor: float = 1.0
    _known: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
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

    def rank(self, share: float) -> int:
        """Return the rank at which a share of the sums is reached; the smallest has rank 1."""
        return max(1, math.ceil(share * self.count))

    def quantile(self, rank: int) -> float:
        """Return the factor times the sum of a rank, or what is just beside it; see `find_quantiles`."""
        if rank not in self._known:
            find_quantiles([(self, rank)])
        return self._known[rank]

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


def find_quantiles(wanted: Iterable[tuple[Sums, int]]) -> None:
    """Find the quantiles of some ranks, of many sums in little more time than of one; `Sums.quantile` has them then.

    Each lies beside its sum, so that samples moved by it tie with none: in the middle of what is left of the sums'
    range when that has been halved until it is as narrow as `BESIDE` says.
    """
    asked = [(sums, rank) for sums, rank in wanted if rank not in sums._known]
    if not asked:
        return
    factor = np.array([sums.factor for sums, _ in asked])
    found = factor * _select(asked)
    low = factor * [sums.lowest for sums, _ in asked]
    high = factor * [sums.highest for sums, _ in asked]
    tolerance = BESIDE * np.maximum(1.0, np.maximum(abs(low), abs(high)))
    while (wide := high - low > tolerance).any():
        middle = (low + high) / 2
        above = found > middle
        low = np.where(wide & above, middle, low)
        high = np.where(wide & ~above, middle, high)
    for (sums, rank), value in zip(asked, ((low + high) / 2).tolist(), strict=True):
        sums._known[rank] = value


def _select(asked: Sequence[tuple[Sums, int]]) -> np.ndarray:
    """Return the sum of each rank."""
    found = np.empty(len(asked))
    listed: dict[int, list[int]] = defaultdict(list)
    for place, (sums, rank) in enumerate(asked):
        if sums.count > MOST_LISTED:
            found[place] = sums.select(rank)
        else:
            listed[id(sums)].append(place)
    # of like sizes and ranks at once, so that little is filled up
    single = [places[0] for places in listed.values() if len(places) == 1]
    keys = [
        (2 * rank > sums.count, sums.first.size, sums.second.size, rank)
        for sums, rank in map(asked.__getitem__, single)
    ]
    for chosen in blocks(keys, [first * second for _, first, second, _ in keys]):
        places = [single[each] for each in chosen]
        found[places] = _partition([asked[place] for place in places])
    several = [places for places in listed.values() if len(places) > 1]
    shapes = [(sums.first.size, sums.second.size) for sums, _ in (asked[places[0]] for places in several)]
    for chosen in blocks(shapes, [first * second for first, second in shapes]):
        rows = [row for row, each in enumerate(chosen) for _ in several[each]]
        places = [place for each in chosen for place in several[each]]
        ordered = _order([asked[several[each][0]][0] for each in chosen])
        found[places] = ordered[rows, [asked[place][1] - 1 for place in places]]
    return found


def blocks(keys: Sequence[Any], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of all keys in their order, as many at once as `AT_ONCE` allows.

    Args:
        sizes: how many numbers each stands for; a block has room for the largest at every place.
    """
    block: list[int] = []
    largest = 0
    for place in sorted(range(len(keys)), key=keys.__getitem__):
        if block and (len(block) + 1) * max(largest, sizes[place]) > AT_ONCE:
            yield block
            block, largest = [], 0
        block.append(place)
        largest = max(largest, sizes[place])
    if block:
        yield block


def _partition(asked: Sequence[tuple[Sums, int]]) -> np.ndarray:
    """Return the sum of each rank, found in a list of all of them that is the same length for each.

    Shorter lists are filled up with -inf until the ranks agree, and with inf behind.
    """
    first, second = (stack(each) for each in zip(*((sums.first, sums.second) for sums, _ in asked), strict=True))
    ranks = np.array([rank for _, rank in asked])
    width, place = second.shape[1], int(ranks.max()) - 1
    more = -(-int(place + 1 - ranks.min()) // width)
    sums = np.empty((len(asked), first.shape[1] + more, width))
    np.add(first[:, :, None], second[:, None, :], out=sums[:, : first.shape[1]])
    before = np.arange(more * width) < (place + 1 - ranks)[:, None]
    sums[:, first.shape[1] :] = np.where(before, -math.inf, math.inf).reshape(len(asked), more, width)
    flat = sums.reshape(len(asked), -1)
    flat.partition(place, axis=1)
    return flat[:, place]


def _order(listed: Sequence[Sums]) -> np.ndarray:
    """Return all sums of each ascending, shorter lists with inf behind: faster than a search for two of them or more.

    Processors that have AVX2 or AVX-512 sort about as fast as they find one rank.
    """
    first, second = (stack(each) for each in zip(*((sums.first, sums.second) for sums in listed), strict=True))
    sums: np.ndarray = (first[:, :, None] + second[:, None, :]).reshape(len(listed), -1)
    sums.sort(axis=1)
    return sums


def stack(series: Sequence[np.ndarray]) -> np.ndarray:
    """Return series as rows, shorter ones filled up with inf."""
    sizes = [each.size for each in series]
    if min(sizes) == max(sizes):
        return np.array(series)
    rows = np.full((len(series), max(sizes)), math.inf)
    for row, each in zip(rows, series, strict=True):
        row[: each.size] = each
    return rows
