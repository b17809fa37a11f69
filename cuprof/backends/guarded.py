"""Arrays in host memory with guard bytes on both sides, which show when something has been written outside."""

from __future__ import annotations

import numpy as np

GUARD_BYTES = 4096
"""Guard bytes on either side of an array. Writes further away than that hit other memory unseen."""
ALIGNMENT = 64
"""Bytes; a cache line of current processors, and their widest vector."""
PATTERN = np.random.default_rng(0x6A7D).integers(0, 256, GUARD_BYTES, dtype=np.uint8)
"""The content of guards: no repeated byte, so neither a fill nor a copy from guard to guard looks intact."""


class GuardedArray:
    """Hold one array between two guards.

    Attributes:
        array: C-contiguous, its elements undefined at first, at a multiple of `ALIGNMENT`. The memory lives as long as
            it does.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.empty(size + 2 * GUARD_BYTES + ALIGNMENT, np.uint8)
        start = GUARD_BYTES + -(memory.ctypes.data + GUARD_BYTES) % ALIGNMENT
        self.array: np.ndarray = memory[start : start + size].view(dtype).reshape(shape)
        self._guards = (memory[start - GUARD_BYTES : start], memory[start + size : start + size + GUARD_BYTES])
        self.mend()

    @property
    def is_sound(self) -> bool:
        """Return whether nothing has been written into the guards since they were made or mended."""
        return all(np.array_equal(guard, PATTERN) for guard in self._guards)

    def mend(self) -> None:
        """Rewrite the guards."""
        for guard in self._guards:
            guard[:] = PATTERN
