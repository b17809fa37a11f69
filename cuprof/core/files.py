"""Reading files that may be anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from cuprof.core.errors import UsageError

MOST_BYTES = 64 << 20
"""Of a file that is read whole: sources, definitions, what a project says."""


def open_regular(path: Path, most: int = 0, *, flags: int = 0) -> BufferedReader:
    """Open a regular file for reading, of `most` bytes or, with 0, any number: a FIFO or a device would never end.

    `flags` are further ones of `os.open`, such as `O_NOFOLLOW`. One that cannot be opened, is no regular file or is
    larger raises `UsageError`; so does a read that fails.
    """
    with _naming(path):
        file = _File(path, opener=lambda name, usual: os.open(name, usual | flags | os.O_NONBLOCK))
        stream: BufferedReader = BufferedReader(file)
    found = os.fstat(stream.fileno())
    if stat.S_ISREG(found.st_mode) and not 0 < most < found.st_size:
        return stream
    stream.close()
    what = f"has {found.st_size} bytes; at most {most} are read" if stat.S_ISREG(found.st_mode) else "is not a file"
    raise UsageError(f"{path} cannot be read: it {what}")


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what a file holds; raises as `open_regular` does."""
    with open_regular(path, most) as stream:
        return stream.read()


class _File(FileIO):
    """Name the file where a read fails, as on a bad disk or a server that has gone."""

    def readinto(self, buffer: Any) -> int | None:
        with _naming(self.name):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with _naming(self.name):
            return super().readall()


@contextmanager
def _naming(path: object) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # of a folder, of a name with a zero byte
        raise UsageError(f"{str(path)[:200]} cannot be read: {getattr(error, 'strerror', None) or error}") from None
