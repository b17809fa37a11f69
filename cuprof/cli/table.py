"""What commands print for people, as lines and tables, and how that becomes text of a given width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Literal, NamedTuple

from cuprof.core.text import visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable

GAP = "  "
MOST_WRAPPED = 1000
"""Rows of the longest table that is wrapped: rich lays out 4,000 a second. A longer one is as wide as it gets."""
_NARROW = re.compile(r"[ -~\xa1-\xac\xae-\u02ff]*").fullmatch
"""Text of Latin letters and signs, each of which takes one column."""


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
    return "".join(f"{line}\n" for part in parts for line in iter_texts(part, width))


def iter_texts(part: Part, width: int) -> Iterator[str]:
    """Yield the lines of one part as plain text, without control characters."""
    if isinstance(part, Line):
        yield visible(part.text, keep="")
    elif len(part.rows) > MOST_WRAPPED or part.width <= width:
        yield from _align(_visible(part))
    else:
        from rich.console import Console

        console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
        console.print(to_rich(part, width), crop=False)
        yield from (line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


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


def to_rich(table: Table, width: int) -> RichTable:
    """Return a table that rich lays out, wider than `width` where numbers and whole words need that."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    table = _visible(table)
    widths = _fit(table, width)
    made = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    made.width = sum(widths) + len(GAP) * (len(widths) - 1)  # whatever the console's: rich would cut numbers
    for column, each in zip(table.columns, widths, strict=True):
        made.add_column(Text(column.heading), justify=column.align, width=each)
    for row in table.rows:
        made.add_row(*(Text(cell.strip()) for cell in row.cells), style=row.style)
    return made


def _fit(table: Table, width: int) -> list[int]:
    """Return the columns' widths; rich's own would make a table too wide whose words are of unequal lengths."""
    widths = _widths(table)
    least = [
        0 if column.align == "left" else width_of_numbers
        for column, width_of_numbers in zip(table.columns, widths, strict=True)
    ]
    for row in (tuple(column.heading for column in table.columns), *(row.cells for row in table.rows)):
        words = (max(map(display_width, cell.split()), default=0) for cell in row)
        least = list(map(max, least, words))
    for _ in range(sum(widths) + len(GAP) * (len(widths) - 1) - width):
        shrinkable = [place for place, each in enumerate(widths) if each > least[place]]
        if shrinkable:
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
    return widths


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if _NARROW(text):
        return len(text)
    from rich.cells import cell_len  # rarely needed

    return cell_len(text)


def _align(table: Table) -> Iterator[str]:
    """Yield a table's lines as rich draws them, of which none wraps: 20,000 rows in a tenth of a second."""
    widths = _widths(table)
    for place, row in enumerate(
        (tuple(column.heading for column in table.columns), *(row.cells for row in table.rows))
    ):
        if place == 1:
            yield "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
        cells = []
        for cell, column, width in zip(row, table.columns, widths, strict=True):
            padding = " " * (width - display_width(cell))
            cells.append(cell + padding if column.align == "left" else padding + cell)
        yield GAP.join(cells).rstrip()


def _widths(table: Table) -> list[int]:
    columns = zip(*(row.cells for row in table.rows), strict=True) if table.rows else ((),) * len(table.columns)
    return [
        max(map(display_width, (column.heading, *cells))) for column, cells in zip(table.columns, columns, strict=True)
    ]


def _visible(table: Table) -> Table:
    """Escape first what is escaped where it is written: the widths are those of what is shown."""
    rows = [
        row if "".join(row.cells).isprintable() else Row(tuple(visible(cell, keep="") for cell in row.cells), row.style)
        for row in table.rows
    ]
    return Table([Column(visible(column.heading, keep=""), column.align) for column in table.columns], rows)
