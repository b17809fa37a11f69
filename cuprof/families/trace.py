"""Describe an exception of a family's own code in one line, with its place."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
NO_ORIGIN = "#line\n"
"""A comment that marks the lines below it as the file's own."""
_ORIGIN = re.compile(r'#line(?: (\d+) "(.+)")?$')


def origin_line(file: str, line: int) -> str:
    """Return the comment that says where the lines below it come from, as C's preprocessor writes it."""
    return f'#line {line} "{file}"\n'


def describe(error: BaseException) -> str:
    """Return "ValueError: text" on one line of at most 200 characters, without control characters."""
    text = (
        f"{error.msg} (line {error.lineno})" if isinstance(error, SyntaxError) else " ".join(str(error)[:4096].split())
    )
    text = _clean(text, 200)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _clean(text: str, most: int) -> str:
    text = "".join(letter if letter.isprintable() else "�" for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def blame(error: BaseException, folder: Path, what: str) -> str:
    """Return "what raised ValueError: text (file.py, line 12, in helper)".

    Args:
        what: the function of the family, and the problem.
    """
    return f"{what} raised {describe(error)}{place_of(error, folder)}"


def place_of(error: BaseException, folder: Path | None) -> str:
    """Return " (file.py, line 12, in helper)", the innermost frame of a file of the folder; empty without one."""
    if folder is None:
        return ""
    root = folder.resolve()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(root)]
    if not own:
        return ""
    file, line = _find_origin(own[-1].filename, own[-1].lineno or 0)
    return f" ({Path(file).name}, line {line}, in {own[-1].name})"


def last_frames(error: BaseException) -> str:
    """Return " (family.py, line 12, in prepare; linalg.py, line 3, in inv)": the author's last, the last two."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_cuprof(Path(frame.filename))]
    own = [frame for frame in frames[:-2] if "site-packages" not in frame.filename]
    shown = [
        f"{Path(file).name}, line {line}, in {frame.name}"
        for frame in (*own[-1:], *frames[-2:])
        for file, line in [_find_origin(frame.filename, frame.lineno or 0)]
    ]
    return f" ({_clean('; '.join(shown), 300)})" if shown else ""


def _is_cuprof(file: Path) -> bool:
    return file.resolve().is_relative_to(PACKAGE) and "_bundled" not in file.parts


def _find_origin(file: str, line: int) -> tuple[str, int]:
    """Return a line's origin, which a comment above it may give."""
    above = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()[:line] if Path(file).is_file() else []
    for distance, text in enumerate(reversed(above)):
        if found := _ORIGIN.match(text):
            return (found[2], int(found[1]) + distance - 1) if found[1] else (file, line)
    return file, line
