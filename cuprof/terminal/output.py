"""Write lines, messages and JSON, with style only where a terminal shows it."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from cuprof.passwords import hide_passwords
from cuprof.terminal.stream import styled
from cuprof.terminal.table import Line
from cuprof.visible import visible, visible_json

PIPE_WIDTH = 160
"""Columns assumed where there is no terminal to ask: wide enough that tables need not wrap."""

PIECES = 100_000
"""Pieces of JSON, a few characters each, that are written at once: of very many rows the text is never whole."""

LINES = 1000
"""Lines that are written at once."""


def terminal_width() -> int:
    """Return the columns of the terminal, or `PIPE_WIDTH` when the output goes elsewhere and COLUMNS is not set."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def print_lines(lines: Iterable[Line]) -> None:
    """Write each line as one line, whatever is in it."""
    if not sys.stdout or not sys.stdout.isatty():
        texts = (visible(line.text, keep="") for line in lines)
        while block := list(islice(texts, LINES)):
            print("\n".join(block))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=styled(sys.stdout), highlight=False)
    for line in lines:
        console.print(Text(visible(line.text, keep=""), style=line.style), soft_wrap=True)


def print_message(text: str) -> None:
    """Write one line to the standard error, without passwords: an error, a warning, a failure."""
    print(visible(hide_passwords(text), keep=""), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Write plain data as JSON; NaN and infinities become null."""
    pieces = json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(plain(value))
    while text := "".join(islice(pieces, PIECES)):
        print(visible_json(text), end="")
    print()


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
