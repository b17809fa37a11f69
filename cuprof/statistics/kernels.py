"""Loops over pairs of series: quantiles of all their differences, and how the samples of one lie among the other's.

Each function works on ragged arrays and is written so that Numba can compile it. Of few pairs the functions run
uncompiled, since loading or compiling them takes longer; then NumPy searches within a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from cuprof.statistics import Floats, Integers

WORTH_COMPILING = 3000
"""Pairs from which on compiled loops take less time than NumPy: to load Numba and its cache takes 0.4 s of the CPU, a
pair of 45 samples 0.14 ms by NumPy and 0.01 ms compiled."""
NEAREST = 1e-9
"""How near a quantile is found, relative to the ends of the range or to 1. It lies beside the difference that it
stands for, in the middle of the last bracket, so that samples moved by it tie with no other."""
MOST_STEPS = 20
"""Of the search that narrows a quantile's range; five are common."""
FEW_DIFFERENCES = 10_000
"""Of a pair with at most this many differences, `np.partition` finds one sooner than counting them five times."""
Loop = Callable[[Floats, Integers, Floats, Integers, Floats], Floats]


def find_quantiles(first: Floats, ends: Integers, second: Floats, second_ends: Integers, shares: Floats) -> Floats:
    """Return quantiles of the differences of every sample of `second` to every one of `first`, pair by pair.

    Args:
        first, second: ascending series, one behind the other.
        ends, second_ends: where each series ends.
        shares: of the differences that are up to each quantile: a row a pair.
    """
    return _choose_loops(ends.size)[0](first, ends, second, second_ends, shares)


def placement_variances(first: Floats, ends: Integers, second: Floats, second_ends: Integers, shifts: Floats) -> Floats:
    """Return the variance of the shares of the other series below each sample, for both series of each pair: (n, 2).

    Args:
        shifts: what the first of each pair is moved by; for the others see `find_quantiles`.
    """
    return _choose_loops(ends.size)[1](first, ends, second, second_ends, shifts)


def _choose_loops(pairs: int) -> tuple[Loop, Loop]:
    """Return what computes quantiles and placements: compiled loops for many pairs, or where they are loaded."""
    is_loaded = _jitted.cache_info().currsize > 0
    return _jitted() if is_loaded or pairs >= WORTH_COMPILING else (_quantiles, _placements)


def _quantiles(first: Floats, ends: Integers, second: Floats, second_ends: Integers, shares: Floats) -> Floats:
    """Bisect the range of the differences of each pair until it is as narrow as `NEAREST` says.

    Differences are counted only where `_narrow` has not told on which side of the bound the quantile lies.
    """
    found = np.empty(shares.shape)
    start, second_start = 0, 0
    for pair in range(ends.size):
        x, y = first[start : ends[pair]], second[second_start : second_ends[pair]]
        start, second_start = ends[pair], second_ends[pair]
        for place in range(shares.shape[1]):
            share = shares[pair, place]
            rank = max(1, int(np.ceil(share * (x.size * y.size))))
            above, up_to = _narrow(x, y, share, rank)
            low, high = float(y[0] - x[-1]), float(y[-1] - x[0])
            while high - low > NEAREST * max(1.0, abs(low), abs(high)):
                middle = (low + high) / 2
                if middle < up_to and (middle <= above or _count(x, y, middle)[0] < rank):
                    low = middle
                else:
                    high = middle
            found[pair, place] = (low + high) / 2
    return found


def _narrow(x: Floats, y: Floats, share: float, rank: int) -> tuple[float, float]:
    """Return two bounds of the difference of this rank; most often it is both of them."""
    if x.size * y.size > FEW_DIFFERENCES:
        return _narrow_by_steps(x, y, share, rank)
    found = float(np.partition((y[:, None] - x).ravel(), rank - 1)[rank - 1])
    return found, found


def _narrow_by_steps(x: Floats, y: Floats, share: float, rank: int) -> tuple[float, float]:
    """Return what `_narrow` does, of any number of differences; compiled, too.

    The bounds are found by regula falsi on the counts (Illinois), whose steps end at the difference itself.
    """
    low, high = y[0] - x[-1], y[-1] - x[0]
    low_left, high_left = -float(rank), float(x.size * y.size - rank) + 0.5
    bound = y[int(share * (y.size - 1))] - x[int((1 - share) * (x.size - 1))]
    side = 0
    for _ in range(MOST_STEPS):
        if not low < bound < high:
            bound = (low + high) / 2
        count, last, beyond = _count(x, y, bound)
        if count == rank:
            return last, last
        if count == rank - 1:
            return beyond, beyond
        if count < rank:
            low, low_left = bound, count - rank + 0.5
            high_left, side = high_left / 2 if side < 0 else high_left, -1
        else:
            high, high_left = bound, count - rank + 0.5
            low_left, side = low_left / 2 if side > 0 else low_left, 1
        bound = low - low_left * (high - low) / (high_left - low_left)
    return low, high


def _placements(first: Floats, ends: Integers, second: Floats, second_ends: Integers, shifts: Floats) -> Floats:
    """Return the variances of the placements; of ties, half count as below."""
    found = np.zeros((ends.size, 2))
    start, second_start = 0, 0
    for pair in range(ends.size):
        x, y = first[start : ends[pair]] + shifts[pair], second[second_start : second_ends[pair]]
        start, second_start = ends[pair], second_ends[pair]
        if x.size > 1 and y.size > 1:
            found[pair, 0] = _variance(_places(y, x)) / (2.0 * y.size) ** 2
            found[pair, 1] = _variance(_places(x, y)) / (2.0 * x.size) ** 2
    return found


def _count(x: Floats, y: Floats, bound: float) -> tuple[int, float, float]:
    """Return how many differences y - x reach a bound at most, the last such and the first beyond (infinite: none)."""
    places = y.searchsorted(x + bound, "right")  # ascending, as x is
    some, others = places.searchsorted([1, y.size])
    last = (y[places[some:] - 1] - x[some:]).max(initial=-np.inf)
    return int(places.sum()), float(last), float((y[places[:others]] - x[:others]).min(initial=np.inf))


def _count_by_walking(x: Floats, y: Floats, bound: float) -> tuple[int, float, float]:
    """Return what `_count` does, in one walk through both series; compiled."""
    total, place = 0, 0
    last, beyond = -np.inf, np.inf
    for value in x:
        while place < y.size and y[place] <= value + bound:
            place += 1
        total += place
        if place > 0:
            last = max(last, y[place - 1] - value)
        if place < y.size:
            beyond = min(beyond, y[place] - value)
    return total, last, beyond


def _places(others: Floats, values: Floats) -> Integers:
    """Return twice how many of the others lie below each value, equal ones by half: whole numbers."""
    return np.searchsorted(others, values, "left") + np.searchsorted(others, values, "right")


def _variance(counts: Integers) -> float:
    """Return the variance of whole numbers, whose sums are the same in any order: compiled or not."""
    return float((np.sum(counts * counts) - float(np.sum(counts)) ** 2 / counts.size) / (counts.size - 1))


@cache
def _jitted() -> tuple[Loop, Loop]:
    """Return `_quantiles` and `_placements` compiled: in some seconds the first time on a machine, later from a cache.

    What they call is replaced or compiled by its name, since functions that are handed over would not be cached.
    """
    import numba
    from numba.extending import overload, register_jitable

    for function in (_narrow_by_steps, _places, _variance):
        register_jitable(function)
    overload(_narrow, strict=False)(lambda x, y, share, rank: _narrow_by_steps)
    overload(_count, strict=False)(lambda x, y, bound: _count_by_walking)
    jit = numba.njit(cache=True, nogil=True)
    return jit(_quantiles), jit(_placements)
