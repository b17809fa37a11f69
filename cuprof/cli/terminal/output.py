"""Write lines, messages and JSON, with style only where a terminal shows it."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from cuprof.cli.terminal.stream import styled
from cuprof.cli.terminal.table import Line
from cuprof.core.text import hide_passwords, visible, visible_json

PIPE_WIDTH = 160
"""Columns assumed where there is no terminal to ask: wide enough that tables need not wrap."""

LINES = 1000
"""Lines, or elements of a list, that are written at once: of very many the text is never whole."""


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
    """Write plain data as JSON; NaN and infinities become null.

    An iterator among the values of a mapping is written as a list, of which a part is held at a time.
    """
    for text in _texts(value):
        print(visible_json(text), end="")
    print()


def _texts(value: Any) -> Iterator[str]:
    if not (isinstance(value, Mapping) and any(isinstance(each, Iterator) for each in value.values())):
        yield _json(plain(value))
        return
    before = "{\n  "
    for name, each in value.items():
        yield f"{before}{_json(name)}: "
        yield from _elements(each) if isinstance(each, Iterator) else [_json(plain(each)).replace("\n", "\n  ")]
        before = ",\n  "
    yield "\n}"


def _elements(items: Iterator[Any]) -> Iterator[str]:
    before, end = "[", "\n  ]"
    while block := list(islice(items, LINES)):
        yield before + _json(block).replace("\n", "\n  ").removeprefix("[").removesuffix(end)
        before = ","
    yield end if before == "," else "[]"


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value, enc_hook=plain), indent=2).decode()
    except UnicodeEncodeError:  # a name of a file may be no text
        return json.dumps(plain(value), ensure_ascii=False, indent=2)


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
