"""What a family's own code raised, and where, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path


def describe(error: BaseException) -> str:
    """Return "ValueError: text" on one line, at most 200 characters, without what a terminal would obey."""
    text = (
        f"{error.msg} (line {error.lineno})" if isinstance(error, SyntaxError) else " ".join(str(error)[:4096].split())
    )
    text = "".join(letter if letter.isprintable() else "�" for letter in text)
    text = text if len(text) <= 200 else text[:199] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def blame(error: BaseException, folder: Path, what: str) -> str:
    """Return "what raised ValueError: text (file.py, line 12, in helper)".

    Args:
        what: the function of the family that was called, and at which problem.
    """
    return f"{what} raised {describe(error)}{place_of(error, folder)}"


def place_of(error: BaseException, folder: Path | None) -> str:
    """Return " (file.py, line 12, in helper)", the innermost frame of a file of the folder; empty without one."""
    if folder is None:
        return ""
    root = folder.resolve()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(root)]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
