"""Arrays in host memory with guard bytes on both sides, which show when something has been written outside."""

from __future__ import annotations

import numpy as np

GUARD_BYTES = 4096
"""On either side of an array. What is written further off than that meets other memory, and is not seen."""
ALIGNMENT = 64
"""Bytes; a cache line of the processors in use, and the widest vector of theirs."""
PATTERN = np.random.default_rng(0x6A7D).integers(0, 256, GUARD_BYTES, dtype=np.uint8)
"""What guards hold: no byte again and again, so that neither a fill nor a copy from guard to guard looks sound."""


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
        """Write the guards anew."""
        for guard in self._guards:
            guard[:] = PATTERN
