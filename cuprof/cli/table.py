"""Lines and tables that commands print for people, and their text at a given width.

rich is not asked for this: it takes 10 s for 20,000 rows and 15 ms to be imported, and makes a table too wide, or cuts
numbers, where words are of unequal lengths. It gives lines their styles on a terminal (`cuprof.cli.output`).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice, repeat, zip_longest
from operator import add
from typing import Any, Literal, NamedTuple

from cuprof.core.text import visible

GAP = "  "
AT_ONCE = 1000
"""Lines of a table that are filled up together, column by column: a fraction of the time of cell by cell."""
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
    natural = _widths(table)
    widths = _fit(table, natural, width)
    yield from _lay_out(columns, _wrap(Row(tuple(column.heading for column in columns), "bold"), widths), widths)
    yield Line("─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    wrapped = rows if widths == natural else (line for row in rows for line in _wrap(row, widths))
    yield from _lay_out(columns, wrapped, widths)


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


def _lay_out(columns: Sequence[Column], rows: Iterable[Row], widths: Sequence[int]) -> Iterator[Line]:
    """Yield the lines of rows, each piece filled up to its column's width."""
    lines = iter(rows)
    while block := list(islice(lines, AT_ONCE)):
        pieces = zip(*(line.cells for line in block), strict=True)
        filled = [
            _fill(cells, column.align, width) for cells, column, width in zip(pieces, columns, widths, strict=True)
        ]
        for line, texts in zip(block, zip(*filled, strict=True), strict=True):
            yield Line(GAP.join(texts).rstrip(), line.style)


def _wrap(row: Row, widths: Sequence[int]) -> Iterator[Row]:
    """Yield a row's lines."""
    wrapped = [
        [cell] if display_width(cell) <= width else textwrap.wrap(cell, width, **_WHOLE) or [""]
        for cell, width in zip(row.cells, widths, strict=True)
    ]
    yield from (Row(pieces, row.style) for pieces in zip_longest(*wrapped, fillvalue=""))


def _fill(cells: Sequence[str], align: str, width: int) -> Iterable[str]:
    """Return pieces of a column with spaces up to its width."""
    if _NARROW("".join(cells)):
        return map(str.ljust if align == "left" else str.rjust, cells, repeat(width))
    paddings = [" " * (width - display_width(cell)) for cell in cells]
    return map(add, cells, paddings) if align == "left" else map(add, paddings, cells)


def _fit(table: Table, natural: Sequence[int], width: int) -> list[int]:
    """Return the columns' widths: the widest column of words gives way first, down to its longest word."""
    widths = [*natural]
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
    return [_width((column.heading, *cells)) for column, cells in zip(table.columns, columns, strict=True)]


def _width(cells: Sequence[str]) -> int:
    """Return the most columns of a terminal that one of some cells takes."""
    return max(map(len if _NARROW("".join(cells)) else display_width, cells))


def _visible(table: Table) -> Table:
    """Escape control characters before widths are measured, as they are escaped when written."""
    rows = [
        row if "".join(row.cells).isprintable() else Row(tuple(visible(cell, keep="") for cell in row.cells), row.style)
        for row in table.rows
    ]
    return Table([Column(visible(column.heading, keep=""), column.align) for column in table.columns], rows)
