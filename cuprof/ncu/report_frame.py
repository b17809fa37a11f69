"""The frame of a report file: enough of it to tell a whole report from a foreign file or one cut short.

A .ncu-rep file is the four bytes "NVR\\0", then messages of Protocol Buffers, each behind its size (uint32,
little-endian): one FileHeader with the format's version, then blocks, each a BlockHeader that names the size of the
payload behind it. The file ends with the last payload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cuprof.errors import ProfilerError

MAGIC = b"NVR\0"
NEWEST_VERSION = 7
"""Of the file format: what Nsight Compute 2025.3 writes."""
_PAYLOAD_SIZE = 5
"""Number of the field of a BlockHeader that holds its payload's size."""
_VERSION = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _CutShortError(Exception):
    """The file ends inside a message."""


def check_frame(path: Path) -> int:
    """Check that a file is a whole report and return its format version.

    Raises:
        ProfilerError: it is absent, unreadable, no report, or cut short.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise ProfilerError(
                    f"{path} is no Nsight Compute report; give a .ncu-rep file that `ncu --export` has written"
                )
            size = path.stat().st_size
            version = dict(_fields(_message(file, size))).get(_VERSION, 0)
            blocks = 0
            while file.tell() < size:
                payload = dict(_fields(_message(file, size))).get(_PAYLOAD_SIZE, 0)
                if file.tell() + payload > size:
                    raise _CutShortError
                file.seek(payload, 1)
                blocks += 1
            if not blocks:
                raise _CutShortError
            return version
    except _CutShortError:
        raise ProfilerError(
            f"{path} is cut short: the disk was full, or ncu or a copy was stopped; make the report again"
        ) from None
    except OSError as error:
        raise ProfilerError(f"{path} cannot be read: {error.strerror or error}") from error


def find_cache_control(path: Path) -> str | None:
    """Return what --cache-control was, "all" or "none", by the command line that ncu notes in a report, or None."""
    found = re.search(rb"--cache-control[ =]+(all|none)\b", path.read_bytes())
    return found.group(1).decode() if found else None


def _message(file: IO[bytes], size: int) -> bytes:
    """Read one message behind its size."""
    prefix = file.read(4)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 4 or file.tell() + length > size:
        raise _CutShortError
    return file.read(length)


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Yield (field number, value) of the whole-number fields of a message of Protocol Buffers."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
        elif kind == _BYTES:
            length, position = _varint(message, position)
            position += length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise _CutShortError


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return a variable-length number and the position behind it."""
    value = shift = 0
    while position < len(message):
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _CutShortError
