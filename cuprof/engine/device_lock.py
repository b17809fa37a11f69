"""Take turns: of all cuprof processes of a user, one at a time measures on a device."""

from __future__ import annotations

import fcntl
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cuprof.backends.registry import is_host
from cuprof.project import user_cache
from cuprof.records import DeviceFacts

PID_BYTES = 20


class DeviceLocks:
    """Hold a device while something is timed on it; the kernel lets go of it when the process ends, however it ends.

    The locks are advisory (flock): they keep cuprof from cuprof and nothing else.

    Args:
        note: told once of every process that is waited for.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._told: set[str] = set()

    @contextmanager
    def hold(self, device: DeviceFacts) -> Iterator[None]:
        """Wait for the device's turn and keep it until the block ends; not to be nested."""
        handle = self._take(device)
        try:
            yield
        finally:
            if handle is not None:
                os.ftruncate(handle, 0)  # nobody who comes now is told of a process that has let go
                os.close(handle)

    def _take(self, device: DeviceFacts) -> int | None:
        """Return the locked file, or None where no file can be locked, which costs the turns and nothing else."""
        try:
            with ExitStack() as stack:
                handle = _open(f"{lock_name(device)}.lock")
                stack.callback(os.close, handle)
                self._lock(handle, device)
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
                stack.pop_all()
                return handle
        except OSError as error:
            self._tell(f"{device.name}: other cuprof processes may time on it at the same time: {error}")
            return None

    def _lock(self, handle: int, device: DeviceFacts) -> None:
        """Lock a file; if that takes a wait, name the process whose number is in it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(handle, PID_BYTES, 0).decode()
            who = f"another cuprof process (pid {pid})" if pid else "another cuprof process"
            self._tell(f"waiting for {who} that times on {device.name}")
            fcntl.flock(handle, fcntl.LOCK_EX)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._note(text)


def lock_name(device: DeviceFacts) -> str:
    """Return what is equal for all that measure on one physical device: OpenCL's CPU is the host, its GPU is CUDA's."""
    if is_host(device.backend, device.details):
        return f"host-{platform.node()}"
    return device.uuid or f"{device.backend}-{device.index}-{platform.node()}"


def list_folders() -> tuple[Path, ...]:
    """Return where locks may lie, the best first: `$CUPROF_LOCKS` alone, else the user's cache, the temporary folder.

    The cache is better because each job of a batch system may have a temporary folder of its own.
    """
    chosen = os.environ.get("CUPROF_LOCKS")
    if chosen:
        return (Path(chosen),)
    return user_cache() / "locks", Path(tempfile.gettempdir()) / f"cuprof-locks-{os.getuid()}"


def _open(name: str) -> int:
    """Open a lock's file, which is made where it is missing and never removed: a removed one could be locked twice."""
    *before, last = list_folders()
    for folder in before:
        try:
            return _open_in(folder, name)
        except OSError:
            continue
    return _open_in(last, name)


def _open_in(folder: Path, name: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o666)
