"""Reading files that may be anything."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from cuprof.core.errors import UsageError

MOST_BYTES = 64 << 20
"""Of a file that is read whole: sources, definitions, what a project says."""


def open_regular(path: Path, most: int = 0) -> BufferedReader:
    """Open a regular file for reading, of `most` bytes or, with 0, any number: a FIFO or a device would never end.

    One that cannot be opened, is no regular file or is larger raises `UsageError`.
    """
    try:
        stream: BufferedReader = open(  # noqa: SIM115
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        )
    except (OSError, ValueError) as error:  # of a folder, of a name with a zero byte
        raise UsageError(f"{str(path)[:200]} cannot be read: {getattr(error, 'strerror', None) or error}") from None
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
