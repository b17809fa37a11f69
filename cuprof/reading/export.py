"""Rows as CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from cuprof.errors import MissingDependencyError, StoreError, UsageError
from cuprof.reading.frames import make_frame
from cuprof.reading.rows import Rows, plain_columns

SHORTEST = 1e-4
LONGEST = 1e16
"""Between these sizes, Python and JSON write a float in the same way."""


def iter_csv(rows: Rows) -> Iterator[str]:
    """Yield the rows as CSV, piece by piece, the columns' names first; no value is an empty field."""
    head = _csv_lines([rows.names])
    for batch in rows.batches:
        columns = [_csv_column(column) for column in plain_columns(rows.names, batch)]
        yield head + _csv_lines(zip(*columns, strict=True))
        head = ""
    yield head


def iter_json(rows: Rows) -> Iterator[str]:
    """Yield a list of objects as strict JSON: no value is null, infinities are the strings "Infinity", "-Infinity".

    Raises:
        UsageError: columns of one name or bytes, for which JSON has no form.
    """
    names = _distinct_names(rows.names, "JSON")
    between = "[\n  "
    for batch in rows.batches:
        columns = [list(map(_json_value, column)) for column in plain_columns(names, batch)]
        for row in zip(*columns, strict=True):
            yield between + _json_object(dict(zip(names, row, strict=True)))
            between = ",\n  "
    yield "\n]\n" if between.startswith(",") else "[]\n"


def write_file(pieces: Iterable[bytes], path: Path) -> None:
    """Write a file, which is made when the first piece is there.

    Raises:
        StoreError: it cannot be written.
    """
    pieces = iter(pieces)
    first = next(pieces)
    try:
        with path.open("wb") as file:
            file.writelines(chain([first], pieces))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None


def to_parquet(rows: Rows) -> bytes:
    """Return the rows as a Parquet file.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        UsageError: two columns of one name, or a column of several types.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError("pyarrow, which writes Parquet,", "install it with: pip install pyarrow") from None
    _distinct_names(rows.names, "Parquet")
    buffer = io.BytesIO()
    try:
        make_frame(rows.names, [row for batch in rows.batches for row in batch]).to_parquet(buffer, engine="pyarrow", index=False)
    except pyarrow.ArrowException as error:
        text = "; ".join(map(str, error.args))
        raise UsageError(f"Parquet has no form for these rows: {text}; CAST each column to one type") from None
    return buffer.getvalue()


def _distinct_names(names: Sequence[str], form: str) -> Sequence[str]:
    for name, count in Counter(names).items():
        if count > 1:
            raise UsageError(f"{count} columns are named {name}, and {form} takes each name once; rename them with AS")
    return names


def _json_object(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, allow_nan=False, ensure_ascii=False)
    except TypeError:
        name = next(name for name, value in row.items() if not isinstance(value, (str, int, float, type(None))))
        kind = type(row[name]).__name__
        raise UsageError(f"column {name} holds {kind}, which JSON has no form for; write hex({name})") from None


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value.isoformat() if isinstance(value, datetime) else value


def _csv_lines(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_column(values: list[Any]) -> Sequence[Any]:
    """Return a column of floats as text, all at once: most of a view is floats, and Python takes its time with them."""
    sizes = [abs(value) for value in values if value] if set(map(type, values)) <= {float, type(None)} else []
    if not sizes or min(sizes) < SHORTEST or max(sizes) >= LONGEST:
        return values
    return msgspec.json.encode(values)[1:-1].decode().replace("null", "").split(",")
