"""Rows as CSV, JSON or Parquet."""

from __future__ import annotations

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

from cuprof.core.errors import MissingDependencyError, StoreError, UsageError
from cuprof.results.frames import make_frame
from cuprof.results.rows import Batch, Rows, is_plain, plain_column, plain_columns


def iter_csv(rows: Rows) -> Iterator[str]:
    """Yield the rows as CSV, piece by piece, the columns' names first; no value is an empty field."""
    head = _csv_lines(rows.names, [rows.names])
    for batch in rows.batches:
        yield head + _csv_lines(rows.names, batch)
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
        make_frame(rows.names, [row for batch in rows.batches for row in batch]).to_parquet(
            buffer, engine="pyarrow", index=False
        )
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


def _csv_lines(names: Sequence[str], rows: Batch) -> str:
    """Return the lines of some rows; by columns, since a view's cells are mostly floats and repeated texts."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    fields = [_fields(name, column) for name, column in zip(names, columns, strict=True)]
    if len(fields) == 1:  # an empty line would be no row
        fields = [[field or '""' for field in fields[0]]]
    return "\n".join(chain(map(",".join, zip(*fields, strict=True)), [""]))


def _fields(name: str, values: Sequence[Any]) -> Sequence[str]:
    kinds = set(map(type, values))
    is_whole = type(None) not in kinds
    kinds.discard(type(None))
    if kinds in ({float}, {int}):
        text = msgspec.json.encode(values)[1:-1].decode()
        # else Python and JSON may write it in two ways; infinities and NaN are null in JSON
        if "e" not in text and "0.0000" not in text and text.count("null") == (0 if is_whole else values.count(None)):
            return (text if is_whole else text.replace("null", "")).split(",")
    if not is_plain(name, kinds):
        values = plain_column(name, values)
        kinds, is_whole = set(map(type, values)), None not in values
    texts = values if kinds == {str} else list(map(str, values))
    if not is_whole:
        texts = ["" if value is None else text for value, text in zip(values, texts, strict=True)]
    if _is_marked("".join(texts)):
        known = {text: _quoted(text) for text in set(texts)}
        texts = [known[text] for text in texts]
    return texts


def _is_marked(text: str) -> bool:
    """Return whether a field of CSV is quoted; each of these is found in a tenth of the time of a pattern."""
    return "," in text or '"' in text or "\n" in text or "\r" in text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _is_marked(text) else text
