"""The memory of a device, as the buffers of a session need it, and how much of the host's is left for it."""

from __future__ import annotations

import resource
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import psutil

from cuprof.families import Array, Arrays
from cuprof.sandbox.cgroup import list_groups

GUARD_BYTES = 4096
"""Guard bytes on either side of an array. Writes further away than that hit other memory unseen."""
PATTERN = np.random.default_rng(0x6A7D).integers(0, 256, GUARD_BYTES, dtype=np.uint8)
"""The content of guards: no repeated byte, so neither a fill nor a copy from guard to guard looks intact."""

GUARD = Array((GUARD_BYTES,), "uint8")

B = TypeVar("B")
"""What kernels and functions are bound to: an array, or a buffer of OpenCL."""


@dataclass
class Content:
    """What an array of one set holds.

    Args:
        host: the values.
        copy: the same in the device's own memory, where `Memory.keep` has put it.
        checksum: of the values, where the device compares by checksums.
        pinned: the values where total time copies them from.
    """

    host: np.ndarray
    copy: Any = None
    checksum: int | None = None
    pinned: np.ndarray | None = None


Contents = dict[str, Content]


class Memory(ABC, Generic[B]):
    """The memory of one session. Every method waits, or runs before any later work.

    Args:
        backend: the back end whose device has it.

    Attributes:
        alignment: bytes; parts of an allocation have to start at multiples of this.
    """

    alignment = 1

    def __init__(self, backend: Any) -> None:
        self._guard = Content(PATTERN)
        self._guarded: list[tuple[str, B, tuple[int, int]]] = []
        """Label, allocation, and where its guards begin."""

    def allocate(self, label: str, array: Array) -> B:
        """Return new memory for an array between guards, which show when something has been written outside.

        Arrays of one problem lie side by side, so what writes past an end raises no error.

        Args:
            label: its name in `find_damaged` ("output y").

        Raises:
            DeviceMemoryError: there is not enough.
        """
        start = -(-GUARD_BYTES // self.alignment) * self.alignment
        end = start + max(array.nbytes, 1)
        whole = self.reserve(label, end + GUARD_BYTES)
        guards = start - GUARD_BYTES, end
        self._guarded.append((label, whole, guards))
        self._write_guards(whole, guards)
        return self.part(whole, start, array)

    def reserve(self, label: str, size: int) -> B:
        """Return new memory of this many bytes; raise as `allocate`."""
        raise NotImplementedError

    def part(self, buffer: B, start: int, array: Array) -> B:
        """Return the part of an allocation of bytes that holds an array, from a byte on."""
        raise NotImplementedError

    def keep(self, contents: Sequence[Content]) -> None:
        """Copy a set's contents into the device's memory, outside any guard.

        Raises:
            DeviceMemoryError: there is no room for it beside what executions need.
        """

    @abstractmethod
    def write(self, buffer: B, content: Content, start: int = 0) -> None:
        """Give a buffer a content from a byte on, from the device's copy if there is one."""

    def copy(self, target: B, source: B, size: int) -> None:
        """Copy the first bytes of one buffer into another."""
        raise NotImplementedError

    @abstractmethod
    def fill(self, buffer: B, byte: int, start: int = 0, size: int | None = None) -> None:
        """Let bytes of a buffer, all of them by default, be this one."""

    def read(self, buffer: B, array: Array, start: int = 0) -> np.ndarray:
        """Return an array that begins at a byte of a buffer as a host array of its own."""
        raise NotImplementedError

    @abstractmethod
    def holds(self, buffers: Mapping[str, B], contents: Contents) -> Iterable[tuple[str, bool]]:
        """Yield the name of each buffer, and whether its bytes are those of the content of this name."""

    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of what has been written outside of, since it was allocated or mended."""
        return tuple(
            label
            for label, whole, guards in self._guarded
            if any((self.read(whole, GUARD, start) != PATTERN).any() for start in guards)
        )

    def mend(self) -> None:
        """Rewrite all guards."""
        for _, whole, guards in self._guarded:
            self._write_guards(whole, guards)

    def _write_guards(self, whole: B, guards: tuple[int, int]) -> None:
        for start in guards:
            self.write(whole, self._guard, start)

    def host_array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a host array that is copied from and to fastest, its elements undefined."""
        return np.empty(shape, dtype)

    def wait(self, what: str = "write the arrays") -> None:
        """Wait for what has been enqueued; raise as `Backend.errors` says."""

    def free(self) -> None:
        """Give all back."""
        self._guarded = []


def make_contents(arrays: Arrays) -> Contents:
    """Return what each array of a set holds."""
    return {name: Content(np.ascontiguousarray(array)) for name, array in arrays.items()}


def available_bytes() -> int:
    """Return how much memory this process may still use, by the host's, the container's limit and `ulimit -v`."""
    bounds = [int(psutil.virtual_memory().available), *_cgroup_bounds()]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        bounds.append(limit - int(psutil.Process().memory_info().vms))
    return max(min(bounds), 0)


def _cgroup_bounds() -> Iterator[int]:
    """Yield the memory left by the process's control groups, version 1 or 2, and by those above them."""
    for group, version in list_groups("memory"):
        limit, used = "memory.max", "memory.current"
        if version == 1:
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        with suppress(OSError, ValueError):  # not there, or "max"
            yield int((group / limit).read_text()) - int((group / used).read_text())
