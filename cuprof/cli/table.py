"""Lines and tables that commands print for people, and their text at a given width.

rich is not asked for this: it takes 10 s for 20,000 rows, and makes a table too wide, or cuts numbers, where words are
of unequal lengths. It gives lines their styles on a terminal (`cuprof.cli.output`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape
from itertools import chain, repeat, zip_longest
from typing import NamedTuple

from cuprof.core.text import visible

GAP = "  "


class Line(NamedTuple):
    """Hold one line of output and its rich style."""

    text: str
    style: str = ""


class Table(NamedTuple):
    """Hold headings and rows of text.

    Args:
        numbers: headings of columns that stand right, and are never cut and never wrapped.
        styles: a rich style for each row.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[str] = ()
    styles: Sequence[str] = ()

    @property
    def widths(self) -> list[int]:
        """Return how many columns of a terminal each takes where nothing is wrapped."""
        return [max(map(display_width, cells)) for cells in zip(self.headings, *self.rows, strict=True)]


Part = Line | Table


def to_text(parts: Iterable[Part], width: int) -> str:
    """Return parts as plain text, each of whose lines has an end; tables are at most `width` wide if words allow."""
    return "".join(f"{line.text}\n" for part in parts for line in iter_lines(part, width))


def iter_lines(part: Part, width: int) -> Iterator[Line]:
    """Yield the lines of a part, without control characters: words wrap, numbers never do."""
    if isinstance(part, Line):
        yield Line(visible(part.text, keep=""), part.style)
        return
    are_numbers = [heading in part.numbers for heading in part.headings]
    # Escaped before widths are measured, as they are when written.
    shown = [[visible(cell, keep="") for cell in row] for row in (part.headings, *part.rows)]
    natural = Table(shown[0], shown[1:]).widths
    widths = _fit(shown, natural, are_numbers, width)
    for number, (row, style) in enumerate(zip(shown, chain(["bold"], part.styles, repeat("")), strict=False)):
        for cells in [row] if widths == natural else _wrap(row, widths):
            yield Line(GAP.join(map(_fill, cells, are_numbers, widths)).rstrip(), style)
        if number == 0:
            yield Line("─" * total_width(widths))


def total_width(widths: Sequence[int]) -> int:
    """Return how many columns of a terminal a table's columns take together."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # slow to import

    return cell_len(text)


def to_html(parts: Iterable[Part]) -> str:
    """Return parts as HTML for a notebook's cell."""
    return "".join(
        (f"<p>{escape(part.text)}</p>" if part.text else "") if isinstance(part, Line) else _html_table(part)
        for part in parts
    )


def _html_table(table: Table) -> str:
    aligns = ["right" if heading in table.numbers else "left" for heading in table.headings]
    rows = [("th", table.headings), *(("td", row) for row in table.rows)]
    cells = (
        "".join(
            f'<{tag} style="text-align: {align}">{escape(text)}</{tag}>'
            for align, text in zip(aligns, row, strict=True)
        )
        for tag, row in rows
    )
    return f"<table>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"


def _wrap(row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    wrapped = [
        [cell]
        if display_width(cell) <= width
        else textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]
        for cell, width in zip(row, widths, strict=True)
    ]
    return zip_longest(*wrapped, fillvalue="")


def _fill(cell: str, is_number: bool, width: int) -> str:
    padding = " " * (width - display_width(cell))
    return padding + cell if is_number else cell + padding


def _fit(
    rows: Sequence[Sequence[str]], natural: Sequence[int], are_numbers: Sequence[bool], width: int
) -> Sequence[int]:
    """Return the columns' widths: the widest column of words gives way first, down to its longest word."""
    excess = total_width(natural) - width
    if excess <= 0:
        return natural
    widths = [*natural]
    least = [
        most if is_number else max(display_width(word) for cell in cells for word in ["", *cell.split()])
        for is_number, most, *cells in zip(are_numbers, natural, *rows, strict=True)
    ]
    for _ in range(excess):
        shrinkable = [place for place, each in enumerate(widths) if each > least[place]]
        if shrinkable:
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
    return widths
