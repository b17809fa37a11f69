"""The processor's cores that this process may use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Return how many cores this process may use, which is at least one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
