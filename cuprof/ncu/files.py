"""Report files as files: whole, foreign or cut short by their frame, and kept where the store's rows can name them.

A .ncu-rep file is the four bytes "NVR\\0", then messages of Protocol Buffers, each behind its size (uint32,
little-endian): one FileHeader with the format's version, then blocks. Each block is a BlockHeader and its payload; the
header gives the payload's size and how many messages of each kind (sources, launches, ranges) it has. The file ends
with the last payload.

No header has the number of blocks, so a file that was cut exactly between two of them looks whole, with one exception:
the description of the session (versions, command line) is in blocks of its own behind the first launch.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cuprof.core.errors import ProfilerError, UsageError
from cuprof.core.files import open_regular
from cuprof.core.project import try_writing
from cuprof.core.records import Artifact, Conditions

MAGIC = b"NVR\0"
NEWEST_VERSION = 7
"""The version of the file format that Nsight Compute 2025.3 writes."""
_VERSION = 1
_SOURCES, _RESULTS, _SESSION, _PAYLOAD_SIZE, _RANGE_RESULTS = 1, 2, 3, 5, 7
"""Numbers of the fields of a BlockHeader: counts of the messages in its payload, the session, the payload's size."""
_TOOLS = 8
"""Number of the field of the session's description that holds the versions of the tools."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def check_frame(path: Path) -> tuple[int, int]:
    """Check that a file is a report and not cut short, as far as its format shows (see the module).

    Returns:
        The version of its format, and how many results its blocks have.

    Raises:
        ProfilerError: it is absent, unreadable, no report, or cut short.
    """
    try:
        with open_regular(path) as stream:
            is_report = stream.read(len(MAGIC)) == MAGIC
            data = stream.read() if is_report else b""
    except (UsageError, OSError) as error:
        raise ProfilerError(str(error)) from error
    if not is_report:
        raise ProfilerError(
            f"{path} is not an Nsight Compute report; give a .ncu-rep file that `ncu --export` has written"
        )
    try:
        return _read_headers(memoryview(data))
    except (IndexError, ValueError):
        raise ProfilerError(
            f"{path} is cut short or damaged: the disk was full, or ncu or a copy was stopped; make the report again"
        ) from None


def find_conditions(path: Path) -> Conditions:
    """Return how a report's launches were profiled: its command line where it names it, otherwise ncu's defaults."""
    found = re.findall(rb"--(cache-control|clock-control|replay-mode)[ =]+([a-z-]+)", path.read_bytes())
    options = {name.decode(): value.decode() for name, value in found}
    cache_mode = "hot" if options.get("cache-control") == "none" else "cold"
    return Conditions(cache_mode, options.get("clock-control", "base"), options.get("replay-mode", "kernel"))


def _read_headers(data: memoryview) -> tuple[int, int]:
    """Return version and results; ValueError or IndexError where the data end too early."""
    header, data = _take(data)
    version = _numbers(_fields(header)).get(_VERSION, 0)
    blocks = results = 0
    described = False
    while data:
        header, data = _take(data)
        fields = list(_fields(header))
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
    return version, results


def _split(data: memoryview, size: int) -> tuple[memoryview, memoryview]:
    if size > len(data):
        raise ValueError
    return data[:size], data[size:]


def _take(data: memoryview) -> tuple[memoryview, memoryview]:
    """Return the message that begins here, and what follows it."""
    prefix, rest = _split(data, 4)
    return _split(rest, int.from_bytes(prefix, "little"))


def _numbers(fields: Iterable[tuple[int, int | memoryview]]) -> dict[int, int]:
    return {number: value for number, value in fields if isinstance(value, int)}


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield (field number, value) of the whole numbers and the texts or messages in a message of Protocol Buffers."""
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


def check_folder(folder: Path) -> None:
    """Check that files can be written to the artifacts folder, before anything is profiled.

    Raises:
        ProfilerError: they cannot.
    """
    try:
        try_writing(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error


def keep_artifact(report: Path, folder: Path, *, tool_version: str = "", command: Sequence[str] = ()) -> Artifact:
    """Copy a report file into the artifacts folder, under a name that follows from its contents.

    Returns:
        The artifact, its path relative to the folder.

    Raises:
        ProfilerError: the folder cannot be written, or the disk is full.
    """
    with report.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = report.stat().st_size
    kept = next(folder.glob(f"ncu-*-{digest[:12]}.ncu-rep"), None)
    name = kept.name if kept else f"ncu-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{digest[:12]}.ncu-rep"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if kept is None:
            shutil.copyfile(report, folder / name)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return Artifact(name, digest, size, tool_version=tool_version, command=tuple(command))


def _unwritable(folder: Path, error: OSError) -> ProfilerError:
    return ProfilerError(
        f"reports cannot be kept in {folder} ({error.strerror or error}); make room or give the folder write "
        "permission, and run the same command again"
    )
