"""How much a time varies beside what its samples show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Noise(NamedTuple):
    """How much a time varies, beside what its samples show: from sweep to sweep, or from one preparation to another.

    Args:
        deviation: relative standard deviation of a time.
        freedom: degrees of freedom behind it; infinite where it is taken for known.
        least: a deviation taken for known, which holds where the other one reaches less far.
    """

    deviation: float = 0.0
    freedom: float = math.inf
    least: float = 0.0

    @property
    def value(self) -> float:
        """Return the relative standard deviation to use."""
        return max(self.deviation, self.least)


NO_NOISE = Noise()


@dataclass(frozen=True)
class NoiseModel:
    """The standard deviation of a time from sweep to sweep: a share of the time and a constant, added by squares.

    Args:
        what: the times that it is of, for people.
        relative: share of the time.
        absolute_ns: the same for a time of any length.
    """

    what: str
    relative: float
    absolute_ns: float = 0.0

    def deviations(self, times_ns: np.ndarray | float) -> np.ndarray:
        """Return the relative standard deviations of times."""
        found: np.ndarray = np.hypot(self.relative, self.absolute_ns / times_ns)
        return found

    def text(self, factor: float = 1.0) -> str:
        """Return the figures, times a factor, and what they are of."""
        percent = 100 * factor * self.relative
        relative = f"{percent:{'.2g' if percent < 99.5 else '.0f'}}%" if percent or not self.absolute_ns else ""
        absolute = f"{factor * self.absolute_ns:.0f} ns" if self.absolute_ns else ""
        figures = " and ".join(filter(None, (relative, absolute)))
        return f"{figures} of a time" + (f" ({self.what})" if self.what else "")


PREPARED = NoiseModel("CPU, cold, within one sweep", 0.0, 500.0)
"""Of one function prepared twice in a process: where its objects lie decides what a flush takes out of the caches."""
