"""Whether the process that wrote something is still alive."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

SAME_START_SECONDS = 2.0
"""Start times are computed from the boot time, which moves when the clock is set; pids do not return so fast."""


@dataclass(frozen=True)
class Process:
    """Name one process for good: a pid alone is used again."""

    host: str
    pid: int
    started: float

    def is_alive(self) -> bool:
        """Return whether this very process still runs; False where that cannot be known (another host)."""
        import psutil

        if self.host != platform.node():
            return False
        try:
            process = psutil.Process(self.pid)
            alive: bool = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return alive and abs(process.create_time() - self.started) < SAME_START_SECONDS
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True


def this_process() -> Process:
    """Return the process that runs this code."""
    import psutil

    return Process(platform.node(), os.getpid(), psutil.Process().create_time())
