"""Memory of the host that two processes share by a file descriptor, as rows of bytes; see `BackendSpec.shared`."""

from __future__ import annotations

import fcntl
import mmap
import os
from functools import cache
from typing import Any

import numpy as np

from cuprof.backends.cpu.processor import cache_bytes
from cuprof.backends.host_memory import available_bytes


class SharedHostMemory:
    """Rows in the host's memory.

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
