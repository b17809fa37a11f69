"""Rows of a cursor as a data frame that is the same whichever database they came from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def make_frame(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """Return the rows under their column names.

    Whole numbers with gaps stay whole (dtype Int64), JSON is text, columns that end in `_at` are UTC timestamps,
    exact decimals become floats.
    """
    import pandas as pd

    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    made = [_make_column(name, values) for name, values in zip(names, columns, strict=True)]
    frame = pd.DataFrame(dict(enumerate(made)))  # numbered, since a query may give two columns one name
    frame.columns = pd.Index(list(names), dtype=object)
    return frame


def _make_column(name: str, values: Sequence[Any]) -> pd.Series[Any]:
    import pandas as pd

    entries = [_plain(value) for value in values]
    kinds = {type(entry) for entry in entries if entry is not None}
    if name.endswith("_at") and kinds and kinds <= {str, datetime}:
        try:
            return pd.to_datetime(pd.Series(entries, dtype=object), utc=True, format="ISO8601").astype(
                "datetime64[us, UTC]"
            )
        except ValueError:
            return pd.Series(entries, dtype=object)
    if kinds == {int} and any(entry is None for entry in entries):
        return pd.Series(entries, dtype="Int64")
    if kinds and kinds <= {int, float} and float in kinds:
        return pd.Series(entries, dtype="float64")
    if kinds == {str} or not kinds:
        return pd.Series(entries, dtype=object)
    return pd.Series(entries)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return value
