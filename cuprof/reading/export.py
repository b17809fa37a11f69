"""Data frames as CSV, JSON or Parquet."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.errors import MissingDependencyError, StoreError, UsageError

if TYPE_CHECKING:
    import pandas as pd


def to_bytes(frame: pd.DataFrame, form: str) -> bytes:
    """Return the frame as "csv", "json" or "parquet"; text is UTF-8 and ends in a newline.

    Raises:
        MissingDependencyError: Parquet without pyarrow.
        UsageError: rows that the format has no form for: columns of one name, bytes in JSON, mixed types in Parquet.
    """
    if form == "parquet":
        return to_parquet(frame)
    return (to_json(frame) if form == "json" else frame.to_csv(index=False, lineterminator="\n")).encode()


def write_file(data: bytes, path: Path) -> None:
    """Write a file.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None


def to_json(frame: pd.DataFrame) -> str:
    """Return a list of objects as strict JSON: no value is null, infinities are the strings "Infinity", "-Infinity"."""
    names = _distinct_names(frame, "JSON")
    rows = (dict(zip(names, map(_json_value, row), strict=True)) for row in frame.itertuples(index=False, name=None))
    lines = ",\n  ".join(map(_json_object, rows))
    return f"[\n  {lines}\n]\n" if lines else "[]\n"


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return the frame as a Parquet file."""
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
