"""Host memory: arrays of one process, and rows of bytes that two processes share."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from cuprof.backends.buffers import Content, Contents, Memory, available_bytes
from cuprof.backends.cpu.processor import cache_bytes
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


class SharedHostMemory:
    """Rows in the host's memory, which two processes share by a file descriptor; see `BackendSpec.shared`.

    Args:
        count, stride: how many rows, of how many bytes.
        handle: of the memory that another process has made; None to make some.

    Attributes:
        handle: a descriptor for another process. The file's size cannot be changed.
        rows: array of bytes, one row for each set.
        array_module: NumPy.
    """

    array_module: Any = np
    is_host = True
    most_bytes = 1 << 30

    def __init__(self, count: int, stride: int, number: int | None = None, handle: int | None = None) -> None:
        if handle is None:
            handle = os.memfd_create("cuprof", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(handle, count * stride)
            # A file that the other process cuts off would end this one at its next access.
            fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.handle = handle
        self.rows: Any = np.frombuffer(mmap.mmap(handle, count * stride), np.uint8).reshape(count, stride)

    @staticmethod
    def find_room(number: int | None) -> int:
        """Return how many bytes are free."""
        return available_bytes()

    @staticmethod
    @cache
    def get_junk(number: int | None) -> Any:
        """Return an array that displaces everything else from the caches when it is read."""
        return np.ones(2 * cache_bytes() // 8)

    def use(self) -> None:
        """Do nothing: every thread sees the memory."""

    def wait(self) -> None:
        """Do nothing: what was written is there."""

    def close(self) -> None:
        """Release the memory."""
        os.close(self.handle)
