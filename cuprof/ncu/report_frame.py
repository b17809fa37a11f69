"""The frame of a report file: enough to distinguish a whole report from a foreign file or one that was cut short.

A .ncu-rep file is the four bytes "NVR\\0", then messages of Protocol Buffers, each behind its size (uint32,
little-endian): one FileHeader with the format's version, then blocks. Each block is a BlockHeader and its payload; the
header gives the payload's size and how many messages of each kind (sources, launches, ranges) it has. The file ends
with the last payload.

No header has the number of blocks, so a file that was cut exactly between two of them looks whole, with one exception:
the description of the session (versions, command line) is in blocks of its own behind the first launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
Fields = list[tuple[int, int | memoryview]]


@dataclass(frozen=True)
class Frame:
    """The version of a report's format, and how many results its blocks have."""

    version: int
    results: int


def check_frame(path: Path) -> Frame:
    """Check that a file is a report and not cut short, as far as its format shows (see the module).

    Raises:
        ProfilerError: it is absent, unreadable, no report, or cut short.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProfilerError(f"{path} cannot be read: {error.strerror or error}") from error
    if not data.startswith(MAGIC):
        raise ProfilerError(
            f"{path} is not an Nsight Compute report; give a .ncu-rep file that `ncu --export` has written"
        )
    try:
        return _read_headers(memoryview(data)[len(MAGIC) :])
    except (IndexError, ValueError):
        raise ProfilerError(
            f"{path} is cut short or damaged: the disk was full, or ncu or a copy was stopped; make the report again"
        ) from None


def find_options(path: Path) -> dict[str, str]:
    """Return cache-control, clock-control and replay-mode from the ncu command line in a report, if it is there."""
    found = re.findall(rb"--(cache-control|clock-control|replay-mode)[ =]+([a-z-]+)", path.read_bytes())
    return {name.decode(): value.decode() for name, value in found}


def _read_headers(data: memoryview) -> Frame:
    """Return the frame; ValueError or IndexError where the data end too early."""
    header, data = _take(data)
    version = _numbers(_fields(header)).get(_VERSION, 0)
    blocks = results = 0
    described = False
    while data:
        header, data = _take(data)
        fields = _fields(header)
        numbers = _numbers(fields)
        payload, data = _split(data, numbers.get(_PAYLOAD_SIZE, 0))
        found = numbers.get(_RESULTS, 0) + numbers.get(_RANGE_RESULTS, 0)
        # NVIDIA's reader ends the process where a header counts more messages than the payload has.
        for _ in range(numbers.get(_SOURCES, 0) + found):
            _, payload = _take(payload)
        blocks, results = blocks + 1, results + found
        sessions = [value for number, value in fields if number == _SESSION and isinstance(value, memoryview)]
        described = described or any(part == _TOOLS for session in sessions for part, _ in _fields(session))
    # Older formats keep the versions in an unknown place.
    if not blocks or (results and not described and version >= NEWEST_VERSION):
        raise ValueError
    return Frame(version, results)


def _split(data: memoryview, size: int) -> tuple[memoryview, memoryview]:
    if size > len(data):
        raise ValueError
    return data[:size], data[size:]


def _take(data: memoryview) -> tuple[memoryview, memoryview]:
    """Return the message that begins here, and what follows it."""
    prefix, rest = _split(data, 4)
    return _split(rest, int.from_bytes(prefix, "little"))


def _numbers(fields: Fields) -> dict[int, int]:
    return {number: value for number, value in fields if isinstance(value, int)}


def _fields(message: memoryview) -> Fields:
    """Return (field number, value) of the whole numbers and the texts or messages in a message of Protocol Buffers."""
    return list(_read_fields(message))


def _read_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind in (_VARINT, _BYTES):
            value, position = _varint(message, position)
            yield number, value if kind == _VARINT else message[position : position + value]
            position += value if kind == _BYTES else 0
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return a variable-length number and the position behind it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
