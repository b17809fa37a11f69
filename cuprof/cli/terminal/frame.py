"""Rows of a query for people: a table, or one block a row where a table is wider than the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cuprof.cli.terminal.table import Column, Line, Row, blocks, layout, natural_width


def column_lines(names: Sequence[str], values: Sequence[Sequence[Any]], width: int | None = None) -> list[Line]:
    """Return the lines of named columns; nothing is cut off.

    Numbers are shown to five significant digits, whole numbers in full.

    Args:
        width: columns of the terminal; None means as wide as it gets.
    """
    if not any(values):
        return [Line(f"no rows ({', '.join(names)})" if names else "no rows")]
    columns = [
        Column(name, "right" if {float, int} >= set(map(type, column)) - {type(None)} != set() else "left")
        for name, column in zip(names, values, strict=True)
    ]
    rows = [Row(tuple(map(_cell, row))) for row in zip(*values, strict=True)]
    needed = natural_width(columns, rows)
    return blocks(columns, rows) if width is not None and needed > width else layout(columns, rows, needed)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return " ".join(str(value).split())


def _number(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0 or 1e-3 <= abs(value) < 1e15:
        decimals = 0 if value == 0 else max(0, 4 - math.floor(math.log10(abs(value))))
        return f"{value:.{decimals}f}"
    return f"{value:.4e}"
