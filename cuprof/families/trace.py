"""Describe an exception of a family's own code in one line, with its place."""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path

from cuprof.core.expression import shorten
from cuprof.core.text import visible

PACKAGE = Path(__file__).resolve().parents[1]


def describe(error: BaseException) -> str:
    """Return "ValueError: text" on one line of at most 200 characters, with escapes for control characters."""
    text = ""
    with suppress(Exception):  # its own __str__ may raise
        text = " ".join(str(error)[:4096].split())
    if isinstance(error, SyntaxError):
        text = f"{error.msg} (line {error.lineno})"
    return f"{type(error).__name__}: {shorten(visible(text, ''), 200)}".removesuffix(": ")


def blame(error: BaseException, folder: Path | None, what: str) -> str:
    """Return "what raised ValueError: text (file.py, line 12, in helper)"; `what` is a function, and the problem."""
    return f"{what} raised {describe(error)}{place_of(error, folder)}"


def place_of(error: BaseException, folder: Path | None) -> str:
    """Return " (file.py, line 12, in helper)", the innermost frame of a file of the folder; empty without one."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
    root = folder and folder.resolve()
    own = [frame for frame in frames if root and Path(frame.filename).resolve().is_relative_to(root)]
    return f" ({_say(own[-1])})" if own else ""


def last_frames(error: BaseException) -> str:
    """Return " (family.py, line 12, in prepare; linalg.py, line 3, in inv)": the author's last, the last two."""
    files = [(frame, Path(frame.filename)) for frame in traceback.extract_tb(error.__traceback__)]
    frames = [frame for frame, file in files if "_bundled" in file.parts or not file.resolve().is_relative_to(PACKAGE)]
    own = [frame for frame in frames[:-2] if "site-packages" not in frame.filename]
    shown = "; ".join(_say(frame) for frame in (*own[-1:], *frames[-2:]))
    return f" ({shorten(visible(shown, ''), 300)})" if shown else ""


def _say(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
