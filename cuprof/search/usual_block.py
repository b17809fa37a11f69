"""A guess at a configuration's time from the threads of its block, before anything is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

DOUBLING, BROKEN = 0.15, 0.5
"""What each doubling of threads beyond the usual ones adds to the logarithm of a time, and how many doublings a block
counts as that is not a multiple."""


@dataclass(frozen=True)
class UsualBlock:
    """Say how many threads a block of most good kernels has: from, to, and a multiple of; by default any number."""

    least: int = 1
    most: float = math.inf
    multiple: int = 1

    def suppose(self, threads: int | None) -> float:
        """Return the logarithm of a block's time relative to a usual one's; 0 if the threads are not known."""
        if threads is None or threads < 1:
            return 0.0
        beyond = math.log2(max(self.least / threads, threads / self.most, 1.0))
        return DOUBLING * (beyond + BROKEN * (threads % self.multiple > 0))


ANY_BLOCK = UsualBlock()
