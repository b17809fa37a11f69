"""Host memory: arrays between guard bytes, which show when something has been written outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cuprof.backends.buffers import GUARD_BYTES, PATTERN, Content, Contents, Memory
from cuprof.families import Array

ALIGNMENT = 64
"""Bytes; a cache line of current processors, and their widest vector."""


class HostMemory(Memory[np.ndarray]):
    """Arrays of NumPy, C-contiguous, each beginning at a multiple of `ALIGNMENT`."""

    def __init__(self) -> None:
        self._guards: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array between two guards."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.empty(size + 2 * GUARD_BYTES + ALIGNMENT, np.uint8)
        start = GUARD_BYTES + -(memory.ctypes.data + GUARD_BYTES) % ALIGNMENT
        self._guards[label] = memory[start - GUARD_BYTES : start], memory[start + size : start + size + GUARD_BYTES]
        self.mend()
        return memory[start : start + size].view(dtype).reshape(shape)

    def part(self, buffer: np.ndarray, start: int, array: Array) -> np.ndarray:
        """Return a view."""
        return buffer[start : start + array.nbytes].view(array.type).reshape(array.shape)

    def write(self, buffer: np.ndarray, content: Content) -> None:
        """Copy the host's values."""
        buffer[...] = content.host

    def copy(self, target: np.ndarray, source: np.ndarray, size: int) -> None:
        """Copy within the host."""
        _as_bytes(target)[:size] = _as_bytes(source)[:size]

    def fill(self, buffer: np.ndarray, byte: int, start: int = 0, size: int | None = None) -> None:
        """Overwrite bytes."""
        _as_bytes(buffer)[start:][:size] = byte

    def read(self, buffer: np.ndarray, array: Array) -> np.ndarray:
        """Return a copy."""
        return _as_bytes(buffer)[: array.nbytes].copy().view(array.type).reshape(array.shape)

    def holds(self, buffers: Mapping[str, np.ndarray], contents: Contents) -> Iterator[tuple[str, bool]]:
        """Compare bytes, whatever they mean (NaN equals itself)."""
        for name, buffer in buffers.items():
            ours, theirs = _as_bytes(buffer), _as_bytes(contents[name].host)
            words = ours.size // 8 * 8  # eight at a time: of 256 MiB that is a tenth of a second less, and often
            yield (
                name,
                np.array_equal(ours[:words].view(np.uint64), theirs[:words].view(np.uint64))
                and np.array_equal(ours[words:], theirs[words:]),
            )

    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of arrays whose guards have been written to."""
        damaged = (label for label, guards in self._guards.items() if any((each != PATTERN).any() for each in guards))
        return tuple(damaged)

    def mend(self) -> None:
        """Rewrite all guards."""
        for guards in self._guards.values():
            for each in guards:
                each[:] = PATTERN

    def free(self) -> None:
        """Release the guards, and with them the arrays that have no other owner."""
        self._guards = {}


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)
