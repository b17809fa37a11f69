"""Host memory, as arrays of NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cuprof.backends.buffers import Content, Contents, Memory
from cuprof.families import Array

ALIGNMENT = 64
"""Bytes; a cache line of current processors, and their widest vector."""


class HostMemory(Memory[np.ndarray]):
    """Arrays of NumPy, C-contiguous, each beginning at a multiple of `ALIGNMENT`."""

    def reserve(self, label: str, size: int) -> np.ndarray:
        """Return an array of bytes."""
        memory = np.empty(size + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + size]

    def part(self, buffer: np.ndarray, start: int, array: Array) -> np.ndarray:
        """Return a view."""
        return buffer[start : start + array.nbytes].view(array.type).reshape(array.shape)

    def write(self, buffer: np.ndarray, content: Content, start: int = 0) -> None:
        """Copy the host's values."""
        host = _as_bytes(content.host)
        _as_bytes(buffer)[start : start + host.size] = host

    def copy(self, target: np.ndarray, source: np.ndarray, size: int) -> None:
        """Copy within the host."""
        _as_bytes(target)[:size] = _as_bytes(source)[:size]

    def fill(self, buffer: np.ndarray, byte: int, start: int = 0, size: int | None = None) -> None:
        """Overwrite bytes."""
        _as_bytes(buffer)[start:][:size] = byte

    def read(self, buffer: np.ndarray, array: Array, start: int = 0) -> np.ndarray:
        """Return a copy."""
        return self.part(_as_bytes(buffer), start, array).copy()

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


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)
