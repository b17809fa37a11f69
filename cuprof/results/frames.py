"""Rows as a data frame that is the same whichever database they came from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cuprof.results.rows import Batch, Rows

if TYPE_CHECKING:
    import pandas as pd


def make_frame(names: Sequence[str], rows: Batch) -> pd.DataFrame:
    """Return the rows under their column names.

    Whole numbers with gaps stay whole (dtype Int64), JSON is text, columns that end in `_at` are UTC timestamps,
    exact decimals become floats.
    """
    import pandas as pd

    made = [_make_column(values) for values in Rows(names, [rows]).columns()]
    frame = pd.DataFrame(dict(enumerate(made)))  # numbered, since a query may give two columns one name
    frame.columns = pd.Index(list(names), dtype=object)
    return frame


def _make_column(entries: Sequence[Any]) -> pd.Series[Any]:
    import pandas as pd

    kinds = set(map(type, entries)) - {type(None)}
    if kinds == {datetime}:
        return pd.Series(pd.to_datetime(pd.Series(entries, dtype=object), utc=True)).astype("datetime64[us, UTC]")
    if kinds == {int} and None in entries:
        return pd.Series(entries, dtype="Int64")
    if kinds == {float}:
        return pd.Series(entries, dtype="float64")
    if kinds == {str} or not kinds:
        return pd.Series(entries, dtype=object)
    return pd.Series(entries)
