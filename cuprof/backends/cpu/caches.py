"""The processor's caches, emptied before a cold reading."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cuprof.backends.cpu.processor import cache_bytes


class Caches:
    """Put other data of twice the last-level cache's size into the caches; the data is made at first use."""

    @cached_property
    def _data(self) -> np.ndarray:
        return np.ones(2 * cache_bytes() // 8)

    def flush(self, how: str) -> None:
        """Read the data ("clean"), write it ("dirty"), or do neither ("none")."""
        if how == "dirty":
            self._data.fill(1.0)
        elif how == "clean":
            self._data.max()
