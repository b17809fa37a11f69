"""The frame of a report file: enough to distinguish a whole report from a foreign file or one that was cut short.

A .ncu-rep file is the four bytes "NVR\\0", then messages of Protocol Buffers, each behind its size (uint32,
little-endian): one FileHeader with the format's version, then blocks. Each block is a BlockHeader and its payload; the
header gives the payload's size and how many messages of each kind (sources, launches, ranges) it has. The file ends
with the last payload.

No header has the number of blocks, so a file that was cut exactly between two of them looks whole, with one exception:
the description of the session (versions, command line) is in blocks of its own behind the first launch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cuprof.core.errors import ProfilerError

MAGIC = b"NVR\0"
NEWEST_VERSION = 7
"""The version of the file format that Nsight Compute 2025.3 writes."""
_VERSION = 1
_SOURCES, _RESULTS, _SESSION, _PAYLOAD_SIZE, _RANGE_RESULTS = 1, 2, 3, 5, 7
"""Numbers of the fields of a BlockHeader: counts of the messages in its payload, the session, the payload's size."""
_TOOLS = 8
"""Number of the field of the session's description that holds the versions of the tools."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Frame:
    """The version of a report's format, and how many results its blocks have."""

    version: int
    results: int


class _CutShortError(Exception):
    """The file ends inside a message, or before the description behind the first launch."""


def check_frame(path: Path) -> Frame:
    """Check that a file is a report and not cut short, as far as its format shows (see the module).

    Raises:
        ProfilerError: it is absent, unreadable, no report, or cut short.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise ProfilerError(
                    f"{path} is not an Nsight Compute report; give a .ncu-rep file that `ncu --export` has written"
                )
            size = path.stat().st_size
            return _read_headers(file, size)
    except _CutShortError:
        raise ProfilerError(
            f"{path} is cut short or damaged: the disk was full, or ncu or a copy was stopped; make the report again"
        ) from None
    except OSError as error:
        raise ProfilerError(f"{path} cannot be read: {error.strerror or error}") from error


def find_options(path: Path) -> dict[str, str]:
    """Return cache-control, clock-control and replay-mode from the ncu command line in a report, if it is there."""
    found = re.findall(rb"--(cache-control|clock-control|replay-mode)[ =]+([a-z-]+)", path.read_bytes())
    return {name.decode(): value.decode() for name, value in found}


def _read_headers(file: IO[bytes], size: int) -> Frame:
    version = _numbers(file.read(_length(file, size))).get(_VERSION, 0)
    blocks = results = 0
    described = False
    while file.tell() < size:
        header = file.read(_length(file, size))
        numbers = _numbers(header)
        end = file.tell() + numbers.get(_PAYLOAD_SIZE, 0)
        if end > size:
            raise _CutShortError
        found = numbers.get(_RESULTS, 0) + numbers.get(_RANGE_RESULTS, 0)
        # NVIDIA's reader ends the process where a header counts more messages than the payload has.
        for _ in range(numbers.get(_SOURCES, 0) + found):
            file.seek(_length(file, end), os.SEEK_CUR)
        file.seek(end)
        blocks += 1
        results += found
        described = described or any(
            part == _TOOLS
            for number, session in _fields(header)
            if number == _SESSION and isinstance(session, bytes)
            for part, _ in _fields(session)
        )
    # Older formats keep the versions in an unknown place.
    if not blocks or (results and not described and version >= NEWEST_VERSION):
        raise _CutShortError
    return Frame(version, results)


def _length(file: IO[bytes], size: int) -> int:
    """Read the size of the next message, which ends before `size`."""
    prefix = file.read(4)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 4 or file.tell() + length > size:
        raise _CutShortError
    return length


def _numbers(message: bytes) -> dict[int, int]:
    return {number: value for number, value in _fields(message) if isinstance(value, int)}


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of the whole numbers and the texts or messages in a message of Protocol Buffers."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
        elif kind == _BYTES:
            length, position = _varint(message, position)
            yield number, message[position : position + length]
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
