"""Counters by machine instruction as a row: short lists of numbers, and the instructions' text packed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from cuprof.core.records import INSTRUCTION_BYTES, SourceCounters, read_opcode
from cuprof.store import tables as t
from cuprof.store.rows import columns_of


def as_row(source: SourceCounters) -> dict[str, Any]:
    """Return the columns of the table `source_counters`."""
    opcodes = [read_opcode(text) for text in source.sass]
    names = list(dict.fromkeys(opcodes))
    return columns_of(
        t.source_counters,
        source,
        instruction_count=len(source.sass),
        sass=pack("\n".join(source.sass)),
        opcode_names=names,
        opcodes=[names.index(each) for each in opcodes],
        offsets=[] if source.offsets == _regular(len(source.sass)) else source.offsets,
    )


def from_row(row: Mapping[str, Any]) -> SourceCounters:
    """Return the counters that a row holds.

    Raises:
        ValueError: the row is damaged.
    """
    sass = unpack(row["sass"]).split("\n")
    found = {field.name: row[field.name] for field in fields(SourceCounters)}
    found |= {"sass": sass, "offsets": row["offsets"] or _regular(len(sass)), "excessive": row["excessive"] or {}}
    try:
        return msgspec.convert(found, SourceCounters, strict=False)  # JSON's keys are text, also those that are numbers
    except msgspec.ValidationError as error:
        raise ValueError(f"counters by instruction are damaged: {error}") from error


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


def _regular(count: int) -> tuple[int, ...]:
    """Return the offsets of instructions that follow one another."""
    return tuple(range(0, count * INSTRUCTION_BYTES, INSTRUCTION_BYTES))
