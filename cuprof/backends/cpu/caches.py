"""The processor's caches, emptied before a cold reading."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from cuprof.backends.cpu.processor import cache_bytes
from cuprof.core.processes import count_cores

MOST_THREADS = 16


class Caches:
    """Put other data of twice the last-level cache's size into the caches; the data is made at first use.

    Each of several threads takes a part, the caller's among them: one alone takes 40 ms on a server's processor, and
    leaves the other cores' own caches as they are.
    """

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        return np.array_split(np.ones(2 * cache_bytes() // 8), min(count_cores(), MOST_THREADS))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max(len(self._parts) - 1, 1), "flush")

    def flush(self, how: str) -> None:
        """Read the data ("clean"), write it ("dirty"), or do neither ("none")."""
        if how == "dirty":
            self._in_parts(lambda part: part.fill(1.0))
        elif how == "clean":
            self._in_parts(np.max)

    def _in_parts(self, action: Callable[[np.ndarray], object]) -> None:
        own, *others = self._parts
        pending = [self._pool.submit(action, part) for part in others]
        action(own)
        for each in pending:
            each.result()
