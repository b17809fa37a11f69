"""Whether the host is quiet enough for CPU times."""

from __future__ import annotations

import os

from cuprof.core.processes import count_cores
from cuprof.core.text import count

BUSY_SHARE = 0.5
"""If the load per usable core is above this, other work often runs on a variant's core while it is timed."""


def describe_load() -> str:
    """Return one line if the host is busy (load average of the last minute), else an empty string."""
    cores, load = count_cores(), os.getloadavg()[0]
    if load <= BUSY_SHARE * cores:
        return ""
    return f"the host is busy (load {load:.1f} on {count(cores, 'core')}): CPU times will scatter"
