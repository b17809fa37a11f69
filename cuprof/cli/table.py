"""Lines and tables that commands print for people, and their text at a given width.

rich is not asked for this: it takes 10 s for 20,000 rows and 15 ms to be imported, and makes a table too wide, or cuts
numbers, where words are of unequal lengths. It gives lines their styles on a terminal (`cuprof.cli.output`).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from cuprof.core.text import visible

GAP = "  "
_NARROW = re.compile(r"[ -~\xa1-\xac\xae-\u02ff]*").fullmatch
"""Text of Latin letters and signs, each one column wide."""
_WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


class Column(NamedTuple):
    """Describe a column; one aligned to the right holds numbers, which are never cut and never wrapped."""

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


class Table(NamedTuple):
    """Hold columns and rows."""

    columns: Sequence[Column]
    rows: Sequence[Row]

    @property
    def widths(self) -> list[int]:
        """Return how many columns of a terminal each takes where nothing is wrapped."""
        return _widths(_visible(self))

    @property
    def width(self) -> int:
        """Return how many columns of a terminal the table takes where nothing is wrapped."""
        return sum(self.widths) + len(GAP) * (len(self.columns) - 1)


Part = Line | Table


def to_text(parts: Iterable[Part], width: int) -> str:
    """Return parts as plain text, each of whose lines has an end; tables are at most `width` wide if words allow."""
    return "".join(f"{line.text}\n" for part in parts for line in iter_lines(part, width))


def iter_lines(part: Part, width: int) -> Iterator[Line]:
    """Yield the lines of a part, without control characters: words wrap, numbers never do."""
    if isinstance(part, Line):
        yield Line(visible(part.text, keep=""), part.style)
        return
    columns, rows = table = _visible(part)
    widths = _fit(table, width)
    yield from _lay_out(columns, Row(tuple(column.heading for column in columns), "bold"), widths)
    yield Line("─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    for row in rows:
        yield from _lay_out(columns, row, widths)


def to_html(parts: Iterable[Part]) -> str:
    """Return parts as HTML for a notebook's cell."""
    made = []
    for part in parts:
        if isinstance(part, Line):
            made.append(f"<p>{escape(part.text)}</p>" if part.text else "")
            continue
        rows = [("th", [column.heading for column in part.columns]), *(("td", row.cells) for row in part.rows)]
        cells = (
            "".join(
                f'<{tag} style="text-align: {column.align}">{escape(text)}</{tag}>'
                for column, text in zip(part.columns, texts, strict=True)
            )
            for tag, texts in rows
        )
        made.append(f"<table>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>")
    return "".join(made)


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if _NARROW(text):
        return len(text)
    from rich.cells import cell_len  # rarely needed

    return cell_len(text)


def _lay_out(columns: Sequence[Column], row: Row, widths: Sequence[int]) -> Iterator[Line]:
    """Yield the lines of a row, each piece filled up to its column's width."""
    wrapped = [
        [cell] if display_width(cell) <= width else textwrap.wrap(cell, width, **_WHOLE) or [""]
        for cell, width in zip(row.cells, widths, strict=True)
    ]
    for pieces in zip_longest(*wrapped, fillvalue=""):
        parts = []
        for column, piece, width in zip(columns, pieces, widths, strict=True):
            padding = " " * (width - display_width(piece))
            parts.append(piece + padding if column.align == "left" else padding + piece)
        yield Line(GAP.join(parts).rstrip(), row.style)


def _fit(table: Table, width: int) -> list[int]:
    """Return the columns' widths: the widest column of words gives way first, down to its longest word."""
    widths = _widths(table)
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    if excess <= 0:
        return widths
    heading = tuple(column.heading for column in table.columns)
    least = [
        most if column.align == "right" else max(display_width(word) for cell in cells for word in ["", *cell.split()])
        for column, most, *cells in zip(table.columns, widths, heading, *(row.cells for row in table.rows), strict=True)
    ]
    for _ in range(excess):
        shrinkable = [place for place, each in enumerate(widths) if each > least[place]]
        if shrinkable:
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
    return widths


def _widths(table: Table) -> list[int]:
    columns = zip(*(row.cells for row in table.rows), strict=True) if table.rows else ((),) * len(table.columns)
    return [
        max(map(display_width, (column.heading, *cells))) for column, cells in zip(table.columns, columns, strict=True)
    ]


def _visible(table: Table) -> Table:
    """Escape control characters before widths are measured, as they are escaped when written."""
    rows = [
        row if "".join(row.cells).isprintable() else Row(tuple(visible(cell, keep="") for cell in row.cells), row.style)
        for row in table.rows
    ]
    return Table([Column(visible(column.heading, keep=""), column.align) for column in table.columns], rows)
