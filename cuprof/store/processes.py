"""Whether the process that wrote something is still alive."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SAME_START_SECONDS = 2.0
"""Start times are computed from the boot time, which moves when the clock is set; pids are not reused so fast."""
HOSTS_OWN = "pid:[4026531836]"
"""The PID namespace that a host starts with: PROC_PID_INIT_INO in Linux' include/linux/proc_ns.h."""


@dataclass(frozen=True)
class Process:
    """Identify one process: a pid alone is used again.

    Args:
        host: as `this_host` names it.
    """

    host: str
    pid: int
    started: float

    def is_alive(self) -> bool:
        """Return whether this very process still runs; False where that cannot be known (another host)."""
        import psutil

        if self.host != this_host():
            return False
        try:
            process = psutil.Process(self.pid)
            alive: bool = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return alive and abs(process.create_time() - self.started) < SAME_START_SECONDS
        except psutil.NoSuchProcess:
            return _is_hidden(self.pid)
        except psutil.AccessDenied:
            return True


def this_process() -> Process:
    """Return the process that runs this code."""
    import psutil

    return Process(this_host(), os.getpid(), psutil.Process().create_time())


def _is_hidden(pid: int) -> bool:
    """Return whether a process exists that /proc does not show: another user's, where it is mounted with hidepid."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def this_host() -> str:
    """Return the host's name, with the PID namespace in a container that has its own, where pids differ."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return platform.node() + (f"-{space.strip('pid:[]')}" if space not in ("", HOSTS_OWN) else "")
