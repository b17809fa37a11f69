"""What is supposed of a configuration before anything of it is known, by the threads of its block."""

from __future__ import annotations

import math
from dataclasses import dataclass

DOUBLING, BROKEN = 0.15, 0.5
"""What each doubling of threads beyond the usual ones is taken to add to the logarithm of a time; a block that is no
multiple counts as so many."""


@dataclass(frozen=True)
class UsualBlock:
    """Say how many threads the blocks of most good kernels have: from, to, and a multiple of; by default any number."""

    least: int = 1
    most: float = math.inf
    multiple: int = 1

    def suppose(self, threads: int | None) -> float:
        """Return the logarithm of how many times as long as a usual block one takes; 0 where that is not known."""
        if threads is None or threads < 1:
            return 0.0
        beyond = math.log2(max(self.least / threads, threads / self.most, 1.0))
        return DOUBLING * (beyond + BROKEN * (threads % self.multiple > 0))


ANY_BLOCK = UsualBlock()
