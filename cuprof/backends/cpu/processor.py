"""The host's processor: what the operating system says of it, and its caches, emptied before a cold reading."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from cuprof.backends.spec import ListedDevice
from cuprof.core.processes import count_cores

DEFAULT_CACHE_BYTES = 32 << 20
"""Assume a last-level cache of this size where the operating system does not say."""
MOST_THREADS = 16


def list_devices() -> Iterator[ListedDevice]:
    """Yield the processor."""
    yield ListedDevice(0, cpu_name(), f"{count_cores()} cores usable")


def cpu_name() -> str:
    """Return the processor's model as the kernel names it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cache_bytes() -> int:
    """Return the size of the last-level cache as Linux reports it, else `DEFAULT_CACHE_BYTES`."""
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    known = (int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units)
    return max(known, default=DEFAULT_CACHE_BYTES)


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
        if how == "none":
            return
        action: Callable[[np.ndarray], object] = np.max if how == "clean" else (lambda part: part.fill(1.0))
        own, *others = self._parts
        pending = self._pool.map(action, others)  # begins at once
        action(own)
        list(pending)
