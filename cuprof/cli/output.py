"""Write lines, tables, messages and JSON, with style only where a terminal shows it."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from cuprof.cli.stream import styled
from cuprof.cli.table import Line, Part, Table, iter_lines
from cuprof.core.text import hide_passwords, visible, visible_json

if TYPE_CHECKING:
    from cuprof.engine.preview import Preview

PIPE_WIDTH = 160
"""Columns assumed where there is no terminal to ask: wide enough that tables need not wrap."""
LINES = 1000
"""Lines that are written at once, so that a very long text is never held whole."""


def terminal_width() -> int:
    """Return the columns of the terminal, or `PIPE_WIDTH` when the output goes elsewhere and COLUMNS is not set."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def show(*parts: Part) -> None:
    """Write lines and tables to the standard output, each line as one line, whatever is in it."""
    width = terminal_width()
    lines = (line for part in parts for line in iter_lines(part, width))
    if not sys.stdout or not sys.stdout.isatty():
        while block := list(islice(lines, LINES)):
            print("\n".join(line.text for line in block))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=styled(sys.stdout), highlight=False)
    for line in lines:
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


def print_preview(preview: Preview, output: str) -> None:
    """Print the trials of a plan and their stored states, for `dry_run=true`, as a table or as JSON."""
    emit([asdict(row) for row in preview.rows], output == "json", preview_parts(preview))


def preview_parts(preview: Preview) -> list[Part]:
    """Return the table and a line that counts the states."""
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


def print_json(value: Any) -> None:
    """Write plain data as JSON; NaN and infinities become null, an iterator a list."""
    if isinstance(value, Mapping):  # an iterator's elements may be many, and msgspec takes them as they are
        data: Any = {str(key): list(each) if isinstance(each, Iterator) else plain(each) for key, each in value.items()}
    else:
        data = plain(value)
    try:
        text = msgspec.json.format(msgspec.json.encode(data, enc_hook=plain), indent=2).decode()
    except UnicodeEncodeError:  # a file's name may be no text
        text = json.dumps(plain(data), ensure_ascii=False, indent=2)
    print(visible_json(text))


def plain(value: Any) -> Any:
    """Return the value as data that JSON has: mappings, lists, texts, finite numbers, null."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if hasattr(value, "item"):  # NumPy's scalars
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
