"""Data frames as text for people, CSV, JSON or Parquet."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

from cuprof.errors import MissingDependencyError, StoreError, UnknownNameError, UsageError

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["table", "csv", "json", "parquet"]
FORMATS: tuple[str, ...] = get_args(Format)


def write_frame(frame: pd.DataFrame, form: str, target: BinaryIO | Path, *, width: int | None = None) -> None:
    """Write the frame to an open binary stream or a file.

    Args:
        form: one of `FORMATS`.
        width: columns of the terminal, for "table"; None means as wide as it gets.

    Raises:
        UnknownNameError: no such format.
        MissingDependencyError: Parquet without pyarrow.
        UsageError: rows that the format has no form for: columns of one name, bytes in JSON, mixed types in Parquet.
        StoreError: the file cannot be written.
    """
    data = to_parquet(frame) if form == "parquet" else to_text(frame, form, width=width).encode()
    if isinstance(target, Path):
        try:
            target.write_bytes(data)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror}") from None
    else:
        target.write(data)


def to_text(frame: pd.DataFrame, form: str, *, width: int | None = None) -> str:
    """Return the frame as "table", "csv" or "json" text that ends in a newline."""
    if form == "table":
        return to_table(frame, width)
    if form == "csv":
        return str(frame.to_csv(index=False, lineterminator="\n"))
    if form == "json":
        return to_json(frame)
    raise UnknownNameError("format", form, FORMATS)


def to_json(frame: pd.DataFrame) -> str:
    """Return a list of objects as strict JSON: no value is null, infinities are the strings "Infinity", "-Infinity".

    Raises:
        UsageError: two columns of one name, or a value such as bytes that JSON has no form for.
    """
    names = _distinct_names(frame, "JSON")
    rows = (dict(zip(names, map(_json_value, row), strict=True)) for row in frame.itertuples(index=False, name=None))
    lines = ",\n  ".join(map(_json_object, rows))
    return f"[\n  {lines}\n]\n" if lines else "[]\n"


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return the frame as a Parquet file.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        UsageError: two columns of one name, or a column of several types.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError("pyarrow, which writes Parquet,", "install it with: pip install pyarrow") from None
    _distinct_names(frame, "Parquet")
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except pyarrow.ArrowException as error:
        text = "; ".join(map(str, error.args))
        raise UsageError(f"Parquet has no form for these rows: {text}; CAST each column to one type") from None
    return buffer.getvalue()


def to_table(frame: pd.DataFrame, width: int | None = None) -> str:
    """Return the frame for people: aligned columns, or one block a row where they are wider than `width`.

    Nothing is cut off; numbers are shown to five significant digits, whole numbers in full.
    """
    names = [str(name) for name in frame.columns]
    if frame.empty:
        return f"no rows ({', '.join(names)})\n" if names else "no rows\n"
    cells = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    numeric = [_is_numeric(frame.iloc[:, place]) for place in range(len(names))]
    widths = [max(len(name), *(len(row[place]) for row in cells)) for place, name in enumerate(names)]
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        return _blocks(names, cells)
    lines = [_line(names, widths, numeric), "  ".join("-" * size for size in widths)]
    lines += [_line(row, widths, numeric) for row in cells]
    return "\n".join(lines) + "\n"


def _line(row: list[str], widths: list[int], numeric: list[bool]) -> str:
    cells = [
        text.rjust(size) if right else text.ljust(size) for text, size, right in zip(row, widths, numeric, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _blocks(names: list[str], cells: list[list[str]]) -> str:
    size = max(len(name) for name in names)
    blocks = []
    for number, row in enumerate(cells, 1):
        lines = [f"-- {number} of {len(cells)}"]
        lines += [f"{name.ljust(size)}  {text}".rstrip() for name, text in zip(names, row, strict=True)]
        blocks.append("\n".join(lines))
    return "\n".join(blocks) + "\n"


def _is_numeric(column: pd.Series[Any]) -> bool:
    return column.dtype.kind in "iuf"


def _cell(value: Any) -> str:
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return " ".join(str(value).split())


def _number(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0 or 1e-3 <= abs(value) < 1e15:
        decimals = 0 if value == 0 else max(0, 4 - math.floor(math.log10(abs(value))))
        return f"{value:.{decimals}f}"
    return f"{value:.4e}"


def _distinct_names(frame: pd.DataFrame, form: str) -> list[str]:
    names = [str(name) for name in frame.columns]
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
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value
