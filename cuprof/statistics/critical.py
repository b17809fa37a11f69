"""Critical values of Student's t and of the normal distribution."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

MOST_FREEDOM = 1e6
"""Above it, Student's t is the normal distribution."""


def critical(error_rate: float, freedom: float) -> float:
    """Return the t that |T| exceeds with this probability; the normal distribution's for infinite freedom.

    Of freedoms that are no whole number, the next whole one below is taken.
    """
    return _critical(error_rate, 0 if freedom > MOST_FREEDOM else max(1, math.floor(freedom + 1e-9)))


def criticals(error_rate: float, freedoms: np.ndarray) -> np.ndarray:
    """Return the critical value of each of many freedoms; see `critical`."""
    distinct, places = np.unique(freedoms, return_inverse=True)
    found: np.ndarray = np.array([critical(error_rate, freedom) for freedom in distinct.tolist()])[places]
    return found


@lru_cache(maxsize=4096)
def _critical(error_rate: float, freedom: int) -> float:
    """Return the critical value of a whole freedom; 0 stands for an infinite one."""
    from scipy import special

    return float(-(special.stdtrit(freedom, error_rate / 2) if freedom else special.ndtri(error_rate / 2)))
