"""Counters by machine instruction as a row: short lists of numbers, and the instructions' text packed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import SourceCounters, read_opcode
from cuprof.store import tables as t


def as_row(source: SourceCounters) -> dict[str, Any]:
    """Return the columns of the table `source_counters`."""
    opcodes = [read_opcode(text) for text in source.sass]
    names = list(dict.fromkeys(opcodes))
    return {
        "instruction_count": len(source.sass),
        "sample_count": source.sample_count,
        "interval_cycles": source.interval_cycles,
        "dropped_bytes": source.dropped_bytes,
        "sass": pack("\n".join(source.sass)),
        "opcode_names": names,
        "opcodes": [names.index(each) for each in opcodes],
        "stalls": {reason: dict(found) for reason, found in source.stalls.items()},
        "excessive": {kind: dict(found) for kind, found in source.excessive.items()},
        "offsets": [] if source.offsets == _regular(len(source.sass)) else list(source.offsets),
        **{name: list(getattr(source, name)) for name in _LISTS},
    }


def from_row(row: Mapping[str, Any]) -> SourceCounters:
    """Return the counters that a row holds.

    Raises:
        ValueError: the row is damaged.
    """
    stalls, excessive = (
        {name: {int(number): int(count) for number, count in found.items()} for name, found in (by_name or {}).items()}
        for by_name in (row["stalls"], row["excessive"])
    )
    sass = tuple(unpack(row["sass"]).split("\n"))
    return SourceCounters(
        sass=sass,
        offsets=tuple(row["offsets"]) or _regular(len(sass)),
        stalls=stalls,
        excessive=excessive,
        files=tuple(row["files"]),
        file_numbers=tuple(row["file_numbers"]),
        lines=tuple(row["lines"]),
        executed=tuple(row["executed"]),
        threads=tuple(row["threads"]),
        sample_count=int(row["sample_count"]),
        interval_cycles=int(row["interval_cycles"]),
        dropped_bytes=int(row["dropped_bytes"]),
    )


def read_source_counters(connection: Connection, launch_ids: list[int]) -> dict[int, SourceCounters]:
    """Return the counters by instruction of these launches that have some, by the launch's key."""
    found = connection.execute(sa.select(t.source_counters).where(t.source_counters.c.launch_id.in_(launch_ids)))
    return {row["launch_id"]: from_row(dict(row)) for row in found.mappings()}


def pack(text: str) -> str:
    """Return a text compressed, as letters that every database stores."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(packed: str) -> str:
    """Return the text that `pack` was given.

    Raises:
        ValueError: it is damaged.
    """
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True)).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"packed text is damaged: {error}") from error


INSTRUCTION_BYTES = 16
"""Size of an instruction on every GPU since Volta."""


def _regular(count: int) -> tuple[int, ...]:
    """Return the offsets of instructions that follow one another."""
    return tuple(range(0, count * INSTRUCTION_BYTES, INSTRUCTION_BYTES))


_LISTS = ("files", "file_numbers", "lines", "executed", "threads")
