"""Lines and tables for people, messages and JSON; a terminal alone shows styles.

rich is not asked for tables: it takes 10 s for 20,000 rows, and makes a table too wide, or cuts numbers, where words
are of unequal lengths. It gives lines their styles on a terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cuprof.cli.stream import styled
from cuprof.core.errors import explain
from cuprof.core.text import MESSAGE_CHARACTERS, excerpt, hide_passwords, visible, visible_json

if TYPE_CHECKING:
    from cuprof.engine.preview import Preview

PIPE_WIDTH = 160
"""Columns assumed where there is no terminal to ask: wide enough that tables need not wrap."""
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


def _wrap(row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    wrapped = [
        [cell]
        if display_width(cell) <= width
        else textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]
        for cell, width in zip(row, widths, strict=True)
    ]
    return zip_longest(*wrapped, fillvalue="")


def _fill(cell: str, is_number: bool, width: int) -> str:
    length = len(cell) + width - display_width(cell)
    return cell.rjust(length) if is_number else cell.ljust(length)


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


def terminal_width() -> int:
    """Return the columns of the terminal, or `PIPE_WIDTH` when the output goes elsewhere and COLUMNS is not set."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def show(*parts: Part) -> None:
    """Write lines and tables to the standard output, each line as one line, whatever is in it."""
    width = terminal_width()
    if not sys.stdout or not sys.stdout.isatty():
        print(to_text(parts, width), end="")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=styled(sys.stdout), highlight=False)
    for line in (line for part in parts for line in iter_lines(part, width)):
        console.print(Text(line.text, style=line.style), soft_wrap=True)


def emit(data: Any, as_json: bool, parts: Iterable[Part] | None = None) -> None:
    """Write data as JSON, or the lines and tables that say the same: of records without any a table of all fields."""
    if as_json:
        print_json(data)
    elif parts is None:
        numbers = [name for name, value in data[0].items() if isinstance(value, int)]
        show(Table([*data[0]], [[str(value) for value in record.values()] for record in data], numbers))
    else:
        show(*parts)


def preview_parts(preview: Preview) -> list[Part]:
    """Return the trials of a plan and their stored states, for `dry_run=true`, and a line that counts the states."""
    names = ["trial", "identity", "state"] + ["reason"] * any(row.reason for row in preview.rows)
    rows = [(row.label, row.identity[:8], row.state, row.reason)[: len(names)] for row in preview.rows]
    styles = ["dim" if row.state in ("unavailable", "excluded") else "" for row in preview.rows]
    counts = Counter(row.state for row in preview.rows)
    summary = ", ".join(f"{count} {state}" for state, count in counts.items()) or "nothing"
    notes = [Line(note, "dim") for note in preview.notes]
    return [Table(names, rows, styles=styles), Line(""), *notes, Line(f"{summary}; nothing was run", "bold")]


def print_message(text: str) -> None:
    """Write one line to the standard error, without passwords: an error, a warning, a failure."""
    print(visible(hide_passwords(text), keep=""), file=sys.stderr, flush=True)


def print_error(error: Exception) -> int:
    """Write one of our errors as one line and return its exit code; raise any other again."""
    explained = explain(error)
    if explained is None:
        raise error
    print_message(f"error: {excerpt(hide_passwords(str(explained)), 2 * MESSAGE_CHARACTERS)}")
    return explained.exit_code


def print_json(value: Any) -> None:
    """Write records and plain data as JSON; NaN and infinities become null."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=2).decode()
    except UnicodeEncodeError:  # a file's name may be no text
        finite = json.loads(json.dumps(msgspec.to_builtins(value, enc_hook=_plain)), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False, indent=2)
    print(visible_json(text))


def _plain(value: Any) -> Any:
    """Return what msgspec does not know, a mapping or a scalar of NumPy, as what it does."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if hasattr(value, "item") else str(value)
