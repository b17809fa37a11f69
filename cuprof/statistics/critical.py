"""Critical values of Student's t and of the normal distribution."""

from __future__ import annotations

import math

MOST_FREEDOM = 1e6
"""Above it, Student's t is the normal distribution."""


def critical(error_rate: float, freedom: float) -> float:
    """Return the t that |T| exceeds with this probability; the normal distribution's for infinite freedom.

    Of freedoms that are no whole number, the next whole one below is taken.
    """
    from scipy import special

    if freedom > MOST_FREEDOM:
        return float(-special.ndtri(error_rate / 2))
    return float(-special.stdtrit(max(1, math.floor(freedom + 1e-9)), error_rate / 2))
