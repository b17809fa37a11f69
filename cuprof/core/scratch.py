"""Temporary folders that do not outlive their owners for long.

An owner holds a lock (flock) on its folder, which the kernel takes back however the owner ends. So whoever gets the
lock of another folder may remove it: that works across containers, and no process id can mislead. What an owner's
worker has left running ends then, too: where its guardian was killed with it, nobody else would find that.
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

from cuprof.core.guardian import end_marked

PREFIX = "cuprof-run-"
NEWBORN_S = 10.0
"""A folder younger than this may not have its lock yet."""


class ScratchFolder:
    """A folder of this process in the temporary folder, removed by `cleanup` or at exit."""

    def __init__(self) -> None:
        _remove_dead_ones()
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.path = Path(self._folder.name)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # a file system without locks: nobody can get it, so nobody removes it
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def cleanup(self) -> None:
        """Remove the folder with all that is in it."""
        self._folder.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@cache
def _remove_dead_ones() -> None:
    remove_dead_folders(Path(tempfile.gettempdir()))


def remove_dead_folders(where: Path) -> None:
    """Remove the folders of this user whose owners have ended, and end what their workers have left behind."""
    for path in where.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                is_old = time.time() - max(found.st_mtime, found.st_ctime) > NEWBORN_S
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and is_old:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    end_marked(path)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)
