"""The sums of all pairs of elements of two series, searched by rank; they are too many to be kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

SKETCHED = 12
"""So many elements of each series stand for all of them where a search begins."""
SKETCH_ERROR = 6
"""So many sums of the sketch to either side a sum is looked for at first."""
ENOUGH = 1e-13
"""Width of the bounds, relative to the largest sum, at which a search ends: the sums still between them are equal."""
BESIDE = 1e-9
"""How near the middle of the last half of the range comes to a sum, relative to the range's ends or 1."""
LEAST_LISTED = 128
"""So few sums are listed without a search."""
MOST_LISTED = 1 << 16
"""More sums than this that are as good as equal are not listed: any of them is the one."""
AT_ONCE = 1 << 16
"""Numbers that are worked on at once, so that they stay in the processor's cache."""


class Sums(NamedTuple):
    """The sums of one element of `first` and one of `second`, both ascending.

    Args:
        factor: what a quantile is multiplied by: 1, or ½ for averages.
    """

    first: np.ndarray
    second: np.ndarray
    factor: float = 1.0

    @property
    def size(self) -> int:
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


def ranks_of(shares: np.ndarray | float, sizes: np.ndarray) -> np.ndarray:
    """Return the ranks at which shares of so many sums are reached; the smallest has rank 1."""
    found: np.ndarray = np.maximum(1, np.ceil(shares * sizes)).astype(np.int64)
    return found


def find_quantiles(asked: Sequence[Sums], ranks: np.ndarray) -> np.ndarray:
    """Return the quantile of one rank of each of many sums, in little more time than of one: its factor times a sum.

    Each lies beside its sum, so that samples moved by it tie with none: in the middle of what is left of the sums'
    range when that has been halved until it is as narrow as `BESIDE` says.
    """
    if not asked:
        return np.empty(0)
    found, low, high = np.array([sums.factor for sums in asked]) * select(asked, ranks)
    tolerance = BESIDE * np.maximum(1.0, np.maximum(abs(low), abs(high)))
    while (wide := high - low > tolerance).any():
        middle = (low + high) / 2
        above = found > middle
        low = np.where(wide & above, middle, low)
        high = np.where(wide & ~above, middle, high)
    middle_of_the_rest: np.ndarray = (low + high) / 2
    return middle_of_the_rest


def select(asked: Sequence[Sums], ranks: np.ndarray) -> np.ndarray:
    """Return the sum of each rank, the smallest and the largest of the sums as three rows."""
    found = np.empty((3, len(asked)))
    sizes = [(sums.first.size, sums.second.size) for sums in asked]
    for places in blocks([max(each) for each in sizes], [sum(each) for each in sizes]):
        search = _Search([asked[place] for place in places], ranks[places])
        found[1:, places] = search.low, search.high  # before they are drawn together
        found[0, places] = search.find()
    return found


class _Search:
    """The search of one rank in the sums of each of many pairs of series, of all at the same time.

    Bounds of each sum are drawn together until few sums lie between, which are listed. A sketch of the sums gives the
    first bounds; the next are interpolated, as the number of sums grows about evenly so near, or are halfway, where it
    does not.
    """

    def __init__(self, asked: Sequence[Sums], ranks: np.ndarray) -> None:
        firsts, seconds = zip(*[(y, x) if x.size > y.size else (x, y) for x, y, _ in asked], strict=True)
        self.first, self.second = np.concatenate(firsts), np.concatenate(seconds)
        self.sizes, self.widths = (np.array([each.size for each in side]) for side in (firsts, seconds))
        self.rank = ranks
        self.begin, self.begin_second = self.sizes.cumsum() - self.sizes, self.widths.cumsum() - self.widths
        self.low = self.first[self.begin] + self.second[self.begin_second]
        self.high = self.first[self.begin + self.sizes - 1] + self.second[self.begin_second + self.widths - 1]
        self.below, self.reached = np.zeros_like(self.rank), self.sizes * self.widths
        # Of each element of the first: where the elements of the second begin whose sums with it are above the lower
        # bound, and where those begin that are above the upper bound.
        self.starts = self.begin_second.repeat(self.sizes)
        self.ends = self.starts + self.widths.repeat(self.sizes)

    def find(self) -> np.ndarray:
        """Return the sums."""
        enough = ENOUGH * np.maximum(abs(self.low), abs(self.high))
        few = np.maximum(LEAST_LISTED, self.sizes + self.widths)
        is_half = np.zeros(self.rank.size, dtype=bool)
        guesses: list[np.ndarray] | None = None
        while (left := np.flatnonzero((self.between > few) & (self.high - self.low > enough))).size:
            low, high, before = self.low[left], self.high[left], self.between[left]
            part = np.where(is_half[left], 0.5, (self.rank - self.below)[left] / before)
            middle = low + part * (high - low)
            guesses = self._sketch() if guesses is None else guesses
            if guesses:
                guess = guesses.pop()[left]
                middle = np.where((low < guess) & (guess < high), guess, middle)
            self._draw(left, middle)
            is_half[left] = ~is_half[left] & (self.between[left] > before / 4)
        found: np.ndarray = self.high.copy()
        listed = np.flatnonzero(self.between <= np.maximum(MOST_LISTED, few))
        counts = self.between[listed].tolist()
        for places in blocks(counts, counts):
            found[listed[places]] = self._list(listed[places])
        return found

    @property
    def between(self) -> np.ndarray:
        """Return how many sums lie above the lower bound and not above the upper one."""
        count: np.ndarray = self.reached - self.below
        return count

    def _sketch(self) -> list[np.ndarray]:
        """Return what is probably above each sum and what is below."""
        part = (np.arange(SKETCHED) + 0.5) / SKETCHED
        first = self.first[self.begin[:, None] + (self.sizes[:, None] * part).astype(np.intp)]
        second = self.second[self.begin_second[:, None] + (self.widths[:, None] * part).astype(np.intp)]
        sums = (first[:, :, None] + second[:, None, :]).reshape(self.rank.size, -1)
        sums.sort(axis=1)
        last = sums.shape[1] - 1
        place, pairs = self.rank * (last + 1) // self.reached, np.arange(self.rank.size)
        return [sums[pairs, np.clip(place + aside, 0, last)] for aside in (SKETCH_ERROR, -SKETCH_ERROR)]

    def _draw(self, pairs: np.ndarray, bound: np.ndarray) -> None:
        """Make a number the lower or the upper bound of each of some pairs."""
        rows, sizes = _ranges(self.begin[pairs], self.sizes[pairs]), self.sizes[pairs]
        starts, ends = self.starts[rows], self.ends[rows]
        first, up_to = self.first[rows], bound.repeat(sizes)
        place, left = starts - 1, ends - starts  # the last element known to be up to the bound; how many are not known
        for _ in range(int(left.max()).bit_length()):
            further = place + ((left + 1) >> 1)
            np.copyto(place, further, where=first + self.second[further] <= up_to)
            left >>= 1
        place += 1
        reached = self.below[pairs] + np.add.reduceat(place - starts, sizes.cumsum() - sizes)
        is_upper = reached >= self.rank[pairs]
        for chosen, bounds, counts, begins in (
            (is_upper, self.high, self.reached, self.ends),
            (~is_upper, self.low, self.below, self.starts),
        ):
            bounds[pairs[chosen]], counts[pairs[chosen]] = bound[chosen], reached[chosen]
            of_chosen = chosen.repeat(sizes)
            begins[rows[of_chosen]] = place[of_chosen]

    def _list(self, pairs: np.ndarray) -> np.ndarray:
        """Return the sums of some pairs of whose sums few lie between the bounds."""
        rows, between = _ranges(self.begin[pairs], self.sizes[pairs]), self.between[pairs]
        starts, counts = self.starts[rows], self.ends[rows] - self.starts[rows]
        sums = np.full((pairs.size, int(between.max())), math.inf)
        sums[np.arange(sums.shape[1]) < between[:, None]] = (
            self.first[rows].repeat(counts) + self.second[_ranges(starts, counts)]
        )
        sums.sort(axis=1)
        found: np.ndarray = sums[np.arange(pairs.size), (self.rank - self.below)[pairs] - 1]
        return found


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return so many whole numbers from each start on, one range behind the other."""
    ends = counts.cumsum()
    numbers: np.ndarray = np.arange(int(ends[-1])) + (starts - (ends - counts)).repeat(counts)
    return numbers


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


def stack(series: Sequence[np.ndarray]) -> np.ndarray:
    """Return series as rows, shorter ones filled up with inf."""
    sizes = [each.size for each in series]
    if min(sizes) == max(sizes):
        return np.array(series)
    rows = np.full((len(series), max(sizes)), math.inf)
    for row, each in zip(rows, series, strict=True):
        row[: each.size] = each
    return rows
