"""Loops over pairs of series: quantiles of all their differences, and how the samples of one lie among the other's.

Each function works on ragged arrays and is written so that Numba can compile it. Of few pairs the functions run
uncompiled, since loading or compiling them takes longer; then NumPy searches within a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

WORTH_COMPILING = 200
"""Pairs from which on compiled loops, loaded from Numba's cache in 0.15 s, take less time than NumPy."""
NEAREST = 1e-9
"""How near a quantile is found, relative to the ends of the range or to 1. It lies beside the difference that it
stands for, in the middle of the last bracket, so that samples moved by it tie with no other."""


def find_quantiles(
    first: np.ndarray, ends: np.ndarray, second: np.ndarray, second_ends: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    """Return quantiles of the differences of every sample of `second` to every one of `first`, pair by pair.

    Args:
        first, second: ascending series, one behind the other.
        ends, second_ends: where each series ends.
        shares: of the differences that are up to each quantile: a row a pair, NaN where none is asked for.
    """
    compiled = _compiled(ends.size)
    found = np.full(shares.shape, np.nan)
    compiled["quantiles"](first, ends, second, second_ends, shares, found, compiled["count"])
    return found


def placement_variances(
    first: np.ndarray, ends: np.ndarray, second: np.ndarray, second_ends: np.ndarray, shifts: np.ndarray
) -> np.ndarray:
    """Return the variance of the shares of the other series below each sample, for both series of each pair: (n, 2).

    Args:
        first, second: ascending series, one behind the other; see `find_quantiles`.
        shifts: what the first of each pair is moved by.
    """
    found = np.zeros((ends.size, 2))
    compiled = _compiled(ends.size)
    compiled["placements"](first, ends, second, second_ends, shifts, found, compiled["variance"])
    return found


def _quantiles(
    first: np.ndarray,
    ends: np.ndarray,
    second: np.ndarray,
    second_ends: np.ndarray,
    shares: np.ndarray,
    found: np.ndarray,
    count: Callable[[np.ndarray, np.ndarray, float], int],
) -> None:
    """Bisect the range of the differences of each pair until it is as narrow as `NEAREST` says."""
    start, second_start = 0, 0
    for pair in range(ends.size):
        x, y = first[start : ends[pair]], second[second_start : second_ends[pair]]
        start, second_start = ends[pair], second_ends[pair]
        lowest, highest = y[0] - x[-1], y[-1] - x[0]
        for place in range(shares.shape[1]):
            if np.isnan(shares[pair, place]):
                continue
            rank = max(1, int(np.ceil(shares[pair, place] * (x.size * y.size))))
            low, high = lowest, highest
            while high - low > NEAREST * max(1.0, abs(low), abs(high)):
                middle = (low + high) / 2
                if count(x, y, middle) < rank:
                    low = middle
                else:
                    high = middle
            found[pair, place] = (low + high) / 2


def _placements(
    first: np.ndarray,
    ends: np.ndarray,
    second: np.ndarray,
    second_ends: np.ndarray,
    shifts: np.ndarray,
    found: np.ndarray,
    variance: Callable[[np.ndarray], float],
) -> None:
    """Put the variances of the placements into `found`; of ties, half count as below."""
    start, second_start = 0, 0
    for pair in range(ends.size):
        x, y = first[start : ends[pair]] + shifts[pair], second[second_start : second_ends[pair]]
        start, second_start = ends[pair], second_ends[pair]
        if x.size > 1 and y.size > 1:
            # Twice the places are whole numbers, whose sums are the same in any order, compiled or not.
            of_x = np.searchsorted(y, x, "left") + np.searchsorted(y, x, "right")
            of_y = np.searchsorted(x, y, "left") + np.searchsorted(x, y, "right")
            found[pair, 0] = variance(of_x) / (2.0 * y.size) ** 2
            found[pair, 1] = variance(of_y) / (2.0 * x.size) ** 2


def _variance(counts: np.ndarray) -> float:
    """Return the variance of whole numbers."""
    return float((np.sum(counts * counts) - float(np.sum(counts)) ** 2 / counts.size) / (counts.size - 1))


def _count_by_search(x: np.ndarray, y: np.ndarray, bound: float) -> int:
    """Return how many differences y - x are up to a bound; for NumPy."""
    return int(np.searchsorted(y, x + bound, "right").sum())


def _count_by_walking(x: np.ndarray, y: np.ndarray, bound: float) -> int:
    """Return how many differences y - x are up to a bound; for Numba, in one walk through both."""
    total, place = 0, 0
    for value in x:
        while place < y.size and y[place] <= value + bound:
            place += 1
        total += place
    return total


@cache
def _jitted() -> dict[str, Any]:
    """Return the loops compiled; the first call on a machine takes some seconds, later ones read Numba's cache."""
    import numba

    jit = numba.njit(cache=True, nogil=True)
    loops = {"quantiles": _quantiles, "placements": _placements, "variance": _variance, "count": _count_by_walking}
    return {name: jit(loop) for name, loop in loops.items()}


def _compiled(pairs: int) -> dict[str, Any]:
    if pairs >= WORTH_COMPILING:
        return _jitted()
    return {"quantiles": _quantiles, "placements": _placements, "variance": _variance, "count": _count_by_search}
