"""Read the operating system's facts about the host's processor."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

from cuprof.backends.spec import ListedDevice
from cuprof.core.processes import count_cores

DEFAULT_CACHE_BYTES = 32 << 20
"""Assume a last-level cache of this size where the operating system does not say."""


def list_devices() -> Iterator[ListedDevice]:
    """Yield the processor."""
    yield ListedDevice(0, cpu_name(), f"{count_cores()} cores usable")


def cpu_name() -> str:
    """Return the processor's model as the kernel names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cache_bytes() -> int:
    """Return the size of the last-level cache as Linux reports it, else `DEFAULT_CACHE_BYTES`."""
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    known = (int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units)
    return max(known, default=DEFAULT_CACHE_BYTES)
