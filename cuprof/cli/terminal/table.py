"""Lay out a table in a given width: words wrap, numbers never break."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cuprof.core.text import visible

GAP = "  "
_NARROW = re.compile(r"[ -~\xa1-\xac\xae-\u02ff]*").fullmatch
"""Text of Latin letters and signs, each of which takes one column."""


@dataclass(frozen=True)
class Column:
    """Describe a column; a right-aligned one holds numbers and is never narrower than its widest cell."""

    heading: str
    align: Literal["left", "right"] = "right"


class Row(NamedTuple):
    """Hold a row's cells as text, and a rich style for all of it."""

    cells: tuple[str, ...]
    style: str = ""


class Line(NamedTuple):
    """Hold one line of output and its rich style."""

    text: str
    style: str = ""


def layout(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[Line]:
    """Return the table's lines, at most `width` columns wide unless the numbers alone need more."""
    columns, rows = _visible(columns, rows)
    widths = _fit(columns, rows, width)
    heading = Row(tuple(column.heading for column in columns), "bold")
    lines = _lines(columns, heading, widths)
    lines.append(Line(GAP.join("─" * each for each in widths)))
    padded = GAP.join(
        f"%{'-' if column.align == 'left' else ''}{each}s" for column, each in zip(columns, widths, strict=True)
    )
    wide = sum(widths) + len(GAP) * (len(widths) - 1)
    for row in rows:
        text = padded % row.cells
        if len(text) == wide and _NARROW(text):  # nothing wraps: nearly every row, in a fifth of the time
            lines.append(Line(text.rstrip(), row.style))
        else:
            lines += _lines(columns, row, widths)
    return lines


def blocks(columns: Sequence[Column], rows: Sequence[Row]) -> list[Line]:
    """Return one block of lines a row, a line a cell, for rows that are wider than the terminal."""
    columns, rows = _visible(columns, rows)
    size = max(display_width(column.heading) for column in columns)
    lines = []
    for number, row in enumerate(rows, 1):
        lines.append(Line(f"── {number} of {len(rows)}", "bold"))
        for column, cell in zip(columns, row.cells, strict=True):
            padding = " " * (size - display_width(column.heading))
            lines.append(Line(f"{column.heading}{padding}{GAP}{cell}".rstrip(), row.style))
    return lines


def natural_width(columns: Sequence[Column], rows: Sequence[Row]) -> int:
    """Return how wide the table is where no words wrap."""
    return sum(_natural_widths(*_visible(columns, rows))) + len(GAP) * (len(columns) - 1)


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # rarely needed

    return cell_len(text)


def _visible(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[list[Column], list[Row]]:
    """Escape first what is escaped where it is written: the widths are those of what is shown."""
    shown = [
        row
        if "".join(row.cells).isprintable()  # nearly every one
        else Row(tuple(visible(cell, keep="") for cell in row.cells), row.style)
        for row in rows
    ]
    return [Column(visible(column.heading, keep=""), column.align) for column in columns], shown


def _cells(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    """Return each column's texts, its heading first."""
    return [[column.heading, *(row.cells[place] for row in rows)] for place, column in enumerate(columns)]


def _natural_widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    return [
        max(map(len, each)) if _NARROW("".join(each)) else max(map(display_width, set(each)))
        for each in _cells(columns, rows)
    ]


def _fit(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    widths = _natural_widths(columns, rows)
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - width
    if excess <= 0:
        return widths
    words = [{word for cell in each for word in cell.split()} for each in _cells(columns, rows)]
    least = [max(map(display_width, each), default=0) for each in words]
    while excess > 0:
        # The widest column of words gives way first, a letter at a time, down to its longest word.
        shrinkable = [n for n, column in enumerate(columns) if column.align == "left" and widths[n] > least[n]]
        if not shrinkable:
            break
        widest = max(shrinkable, key=lambda n: widths[n])
        widths[widest] -= 1
        excess -= 1
    return widths


def _lines(columns: Sequence[Column], row: Row, widths: Sequence[int]) -> list[Line]:
    wrapped = [
        textwrap.wrap(cell, each, break_long_words=False, break_on_hyphens=False) or [""]
        if column.align == "left" and display_width(cell) > each
        else [cell]
        for column, cell, each in zip(columns, row.cells, widths, strict=True)
    ]
    lines = []
    for number in range(max(map(len, wrapped))):
        parts = []
        for column, each, pieces in zip(columns, widths, wrapped, strict=True):
            piece = pieces[number] if number < len(pieces) else ""
            padding = " " * (each - display_width(piece))
            parts.append(piece + padding if column.align == "left" else padding + piece)
        lines.append(Line(GAP.join(parts).rstrip(), row.style))
    return lines
