"""How much memory this process may still use, by the host's free memory, the container's limit and `ulimit -v`."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def available_bytes() -> int:
    """Return the least of all bounds, 0 where one is reached."""
    bounds = [int(psutil.virtual_memory().available), *_cgroup_bounds()]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        bounds.append(limit - int(psutil.Process().memory_info().vms))
    return max(min(bounds), 0)


def _cgroup_bounds() -> Iterator[int]:
    """Yield the memory left by the process's control groups, version 1 or 2, and by those above them."""
    try:
        lines = OWN_CGROUP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root, limit, used = CGROUPS, "memory.max", "memory.current"
        if controllers:
            root, limit, used = CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        folder = root / path.lstrip("/")
        while not controllers or "memory" in controllers.split(","):
            with suppress(OSError, ValueError):  # not there, or "max"
                yield int((folder / limit).read_text()) - int((folder / used).read_text())
            if folder == root or root not in folder.parents:
                break
            folder = folder.parent
