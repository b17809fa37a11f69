"""Rows of a query for people: a table, or one block a row where a table is wider than the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cuprof.terminal.table import Column, Line, Row, blocks, layout, natural_width

if TYPE_CHECKING:
    import pandas as pd


def frame_lines(frame: pd.DataFrame, width: int | None = None) -> list[Line]:
    """Return the frame's lines; nothing is cut off.

    Numbers are shown to five significant digits, whole numbers in full.

    Args:
        width: columns of the terminal; None means as wide as it gets.
    """
    names = [str(name) for name in frame.columns]
    if frame.empty:
        return [Line(f"no rows ({', '.join(names)})" if names else "no rows")]
    columns = [
        Column(name, "right" if frame.iloc[:, place].dtype.kind in "iuf" else "left")
        for place, name in enumerate(names)
    ]
    rows = [Row(tuple(map(_cell, row))) for row in frame.itertuples(index=False, name=None)]
    needed = natural_width(columns, rows)
    return blocks(columns, rows) if width is not None and needed > width else layout(columns, rows, needed)


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
