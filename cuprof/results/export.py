"""Rows as CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cuprof.core.errors import StoreError, UsageError, needing
from cuprof.core.scratch import ScratchFolder
from cuprof.results.queries import Batch, Rows, plain_columns

FORMULA = re.compile(r"[=+\-@＝＋－＠\t\r\n]")
"""How text begins that a spreadsheet may run: https://owasp.org/www-community/attacks/CSV_Injection."""
NUMBER = re.compile(r"[+-]?\d[\d.]*([eE][+-]?\d+)?")
PARTS_TOGETHER = 10
"""Batches of rows in a row group of a Parquet file, which are in memory together."""
PIECE = 2**20
"""Bytes of a finished file that are copied at a time."""


def iter_csv(rows: Rows) -> Iterator[str]:
    """Yield the rows as CSV, piece by piece, the columns' names first; no value is an empty field.

    Text that a spreadsheet would take for a formula is written with an apostrophe before it.
    """
    head = _csv_lines([_harmless(rows.names)])
    for batch in rows.batches:
        columns = map(_harmless, plain_columns(rows.names, batch))
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


def iter_parquet(rows: Rows) -> Iterator[bytes]:
    """Yield the rows as a Parquet file, piece by piece.

    Only the last rows show what type a column has, so the rows wait in files of their own until then.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        UsageError: two columns of one name, or a column of several types.
    """
    with needing("pyarrow, which writes Parquet,", "pip install 'cuprof[parquet]'"):
        import pyarrow
    from pyarrow import parquet

    names, schema, paths = list(_distinct_names(rows.names, "Parquet")), pyarrow.schema([]), list[Path]()
    with ScratchFolder() as folder:
        whole = Path(folder, "whole")
        try:
            for number, batch in enumerate(chain(rows.batches, [()])):
                part = _to_arrow(names, batch)
                schema = pyarrow.unify_schemas([schema, part.schema], promote_options="permissive")
                paths.append(Path(folder, str(number)))
                parquet.write_table(part, paths[-1])
            with parquet.ParquetWriter(whole, schema) as writer:
                for start in range(0, len(paths), PARTS_TOGETHER):
                    parts = [schema.empty_table(), *map(parquet.read_table, paths[start : start + PARTS_TOGETHER])]
                    writer.write_table(pyarrow.concat_tables(parts, promote_options="permissive"))
        except pyarrow.ArrowException as error:
            text = "; ".join(map(str, error.args))
            raise UsageError(f"Parquet has no form for these rows: {text}; CAST each column to one type") from None
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from None
        with whole.open("rb") as file:
            yield from iter(partial(file.read, PIECE), b"")


def _to_arrow(names: Sequence[str], rows: Batch) -> Any:
    import pyarrow

    arrays = []
    for name, values in zip(names, plain_columns(names, rows), strict=True):
        try:
            arrays.append(pyarrow.array(values))
        except pyarrow.ArrowException as error:
            raise pyarrow.ArrowException(f"column {name}: {error}") from None
    return pyarrow.Table.from_arrays(arrays, names)


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


def _csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    lines: list[str] = []
    sink: Any = SimpleNamespace(write=lines.append)
    csv.writer(sink, lineterminator="\r\n").writerows(rows)  # by which a lone \r in a text is quoted
    return "".join([line[:-2] + "\n" for line in lines])


def _harmless(values: Sequence[Any]) -> Sequence[Any]:
    """Return a column whose texts no spreadsheet runs."""
    texts = [value for value in set(values) if isinstance(value, str)] if str in set(map(type, values)) else ()
    risky = {text for text in texts if FORMULA.match(text) and not NUMBER.fullmatch(text)}
    return [f"'{value}" if value in risky else value for value in values] if risky else values
