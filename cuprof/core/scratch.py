"""Temporary folders that do not long outlive their owners.

An owner holds a lock (flock) on its folder, and the kernel releases it however the owner ends. Any process that then
gets the lock may remove the folder. That works across containers, and a reused process id cannot mislead it. The
remover also ends processes that the owner's worker left running, since the guardian may have been killed with the
owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from functools import cache
from pathlib import Path

from cuprof.core.processes import MARK, end_marked

LOG_BYTES = 8192
"""How much of the end of a log is read."""
PREFIX = "cuprof-run-"
NEWBORN_S = 10.0
"""A folder younger than this may not have its lock yet."""


class ScratchFolder(tempfile.TemporaryDirectory[str]):
    """A folder of this process in the temporary folder, or in that of its worker; removed by `cleanup` or at exit."""

    def __init__(self) -> None:
        _remove_dead_once(Path(tempfile.gettempdir()))
        super().__init__(prefix=PREFIX, dir=find_worker_folder(), ignore_cleanup_errors=True)
        self.path = Path(self.name)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # a file system without locks: no process gets one, so none removes it
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def cleanup(self) -> None:
        """Remove the folder with everything in it."""
        remove(self.path)
        with contextlib.suppress(RecursionError):
            super().cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove(folder: Path) -> None:
    """Remove a folder as far as this process may, however deep it is and whatever the modes of folders in it."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    left, unused = [folder] if folder.exists() else [], os.urandom(16).hex()
    for place in left:  # each folder within is brought to the top, where its path is short
        with contextlib.suppress(OSError):
            place.chmod(stat.S_IRWXU)
            for entry in list(os.scandir(place)):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        os.chmod(entry.path, stat.S_IRWXU)  # noqa: PTH101
                        left.append(Path(entry.path).rename(folder / f"{unused}-{len(left)}"))
                    else:
                        os.unlink(entry.path)  # noqa: PTH108
    for place in reversed(left):
        with contextlib.suppress(OSError):
            place.rmdir()


def find_worker_folder() -> str | None:
    """Return the folder that is removed however this worker ends; None in other processes, and in a sandbox.

    There it is hidden, or has the temporary folder in it.
    """
    folder = os.environ.get(MARK)
    is_other = folder and Path(folder).is_dir() and not Path(tempfile.gettempdir()).is_relative_to(folder)
    return folder if is_other else None


def remove_dead_folders(where: Path) -> None:
    """Remove this user's folders whose owners have ended, and end what their workers left running."""
    for path in where.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                if found.st_uid == os.getuid() and time.time() - max(found.st_mtime, found.st_ctime) > NEWBORN_S:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    end_marked(path)
                    remove(path)
            finally:
                os.close(handle)


_remove_dead_once = cache(remove_dead_folders)


def read_end(log: Path) -> str:
    """Return the end of what a process has printed; nothing of a file that is not there."""
    with contextlib.suppress(OSError), log.open("rb") as stream:
        stream.seek(max(os.fstat(stream.fileno()).st_size - LOG_BYTES, 0))
        return stream.read(LOG_BYTES).decode(errors="replace").strip()
    return ""


def write_whole(file: Path, content: bytes) -> None:
    """Write a file that others find whole or not at all; only this user may read it."""
    handle, part = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(part).replace(file)
    except OSError:
        Path(part).unlink(missing_ok=True)
        raise
