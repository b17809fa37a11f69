"""Take turns: of all cuprof processes on a machine, only one at a time measures on a device.

A lock is a file opened for reading only, so it cannot harm a file that another user put in its place. Linux names the
process that holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cuprof.backends.registry import is_host
from cuprof.core.project import user_cache
from cuprof.core.records import DeviceFacts

SHARED_FOLDER = Path("/tmp/cuprof-locks")
"""One folder for all users of the machine. The environment's temporary folder may differ from user to user."""
FOR_ALL = 0o1777
"""Mode of a folder that all users may add to; the sticky bit keeps them from deleting one another's files."""


class DeviceLocks:
    """Hold a device during measurements; the kernel releases it whenever the process ends.

    The locks are advisory (flock): they keep cuprof processes apart and nothing else.

    Args:
        note: receives a line for each process that we wait for, once.

    Attributes:
        waited_s: total time spent waiting for turns, over all devices.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._told: set[str] = set()
        self.waited_s = 0.0

    @contextmanager
    def hold(self, device: DeviceFacts) -> Iterator[None]:
        """Wait for the device's turn and keep it until the block ends; do not nest.

        Each folder of `list_folders` may have a lock; every process takes all it can, in the same order. Without any
        lock, only the turns are lost.
        """
        faults = []
        with ExitStack() as held:
            for folder in list_folders():
                try:
                    handle = _open(folder, f"{lock_name(device)}.lock")
                    held.callback(os.close, handle)
                    self._lock(handle, device)
                except OSError as error:
                    faults.append(error)
            if len(faults) == len(list_folders()):
                self._tell(f"{device.name}: other cuprof processes may measure on it at the same time: {faults[-1]}")
            yield

    def _lock(self, handle: int, device: DeviceFacts) -> None:
        """Lock a file; if that takes a wait, name the process that holds it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = find_holder(handle)
            who = f"another cuprof process (pid {pid})" if pid else "another cuprof process"
            still = f", but is stopped: continue it (kill -CONT {pid}), or end it" if pid and is_stopped(pid) else ""
            self._tell(f"waiting for {who} that measures on {device.name}{still}")
            began = time.monotonic()
            fcntl.flock(handle, fcntl.LOCK_EX)
            self.waited_s += time.monotonic() - began

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._note(text)


def lock_name(device: DeviceFacts) -> str:
    """Return one name per physical device: OpenCL's CPU is the host, its GPU is CUDA's."""
    if is_host(device):
        return f"host-{platform.node()}"
    return device.uuid or f"{device.backend}-{device.index}-{platform.node()}"


def list_folders() -> tuple[Path, ...]:
    """Return the lock folders: only `$CUPROF_LOCKS` if set, else the user's cache and the folder for all users.

    The cache is shared by a user's jobs even if the batch system gives each a /tmp of its own.
    """
    chosen = os.environ.get("CUPROF_LOCKS")
    return (Path(chosen),) if chosen else (user_cache() / "locks", SHARED_FOLDER)


def find_holder(handle: int) -> int | None:
    """Return the process that holds an open file's lock, or None if Linux does not say (another container)."""
    file = os.fstat(handle)
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()  # "1: FLOCK ADVISORY WRITE 1234 fd:01:5678 0 EOF"; those that wait have "->" second
            if words[1] == "FLOCK" and int(words[5].rpartition(":")[2]) == file.st_ino and int(words[4]) > 0:
                return int(words[4])
    return None


def is_stopped(pid: int) -> bool:
    """Return whether a process is suspended, by Ctrl-Z or a batch system, as far as Linux says."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def _open(folder: Path, name: str) -> int:
    """Open a lock's file for reading, creating it if missing. It is never removed, or it could be locked twice."""
    with ExitStack() as stack:
        place = _open_folder(folder)
        stack.callback(os.close, place)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe of that name does not hold us up
        try:
            handle = os.open(name, flags, dir_fd=place)
        except FileNotFoundError:
            # Made apart from being opened: Linux refuses O_CREAT on another user's file in a sticky folder.
            with suppress(FileExistsError):
                made = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=place)
                os.fchmod(made, 0o666)  # whatever the umask is
                os.close(made)
            handle = os.open(name, flags, dir_fd=place)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "not a plain file", str(folder / name))
        return handle


def _open_folder(folder: Path) -> int:
    with suppress(FileExistsError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        if folder != user_cache() / "locks":
            folder.chmod(FOR_ALL)
    follow = 0 if os.environ.get("CUPROF_LOCKS") else os.O_NOFOLLOW  # a chosen folder may be a link: /var/lock is
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | follow)
