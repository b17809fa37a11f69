"""Expand the local includes of a CUDA C++ or OpenCL C source into one text.

The text is hashed, stored and compiled. It holds no file name, so renaming a file changes nothing, and editing an
included file changes every source that includes it. Comments are part of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cuprof.core.errors import FamilyError

MAX_CHARACTERS = 8_000_000
"""More than any person writes; stops includes that double at every level."""

_TOKEN = re.compile(
    r"""(?P<passed>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*")"""
    r"""|^[ \t]*\#[ \t]*include[ \t]*"(?P<include>[^"\n]+)\""""
    r"""|^[ \t]*\#[ \t]*pragma[ \t]+once\b(?P<once>)""",
    re.MULTILINE | re.DOTALL,
)


def expand_includes(file: Path, folder: Path) -> str:
    r"""Return the text of `file` with every `#include "…"` replaced by the included file's text, recursively.

    A name is searched for beside the including file, then in `folder`. `#include <…>` stays. A file with `#pragma once`
    enters once, and a file never enters inside itself. Line ends become \n.

    Raises:
        FamilyError: a file is missing or is not UTF-8 text, or the text grows beyond `MAX_CHARACTERS`.
    """
    return _join(_Expansion(Path(folder)).enter(Path(file), within=()))


def expand_text(text: str, folder: Path, name: str) -> str:
    """Return a source text with its local includes expanded, looked up in `folder`."""
    return _join(_Expansion(Path(folder)).expand(text, Path(folder) / name, within=()))


def _join(pieces: list[Piece]) -> str:
    return "".join([text for text, _, _ in pieces])


def relocate(message: str, name: str | None, folder: Path | None) -> str:
    """Return a compiler's message about an expanded source with the files and lines that the text comes from.

    The compiler sees one text. If its message has a line such as "NAME(12)", "NAME:12" or "<kernel>:12", the result
    names the included file and the line there.

    Args:
        name: the source's name in the folder and for the compiler; None without a file.
        folder: the one given to `expand_includes`.
    """
    if not name or folder is None:
        return message
    try:
        origins = list_origins(folder / name, folder)
    except FamilyError:  # changed meanwhile
        return message

    def replace(match: re.Match[str]) -> str:
        line = int(match["line"])
        if not 1 <= line <= len(origins):
            return match[0]
        origin, own = origins[line - 1]
        shown = os.path.relpath(origin, folder)
        return f"{shown}({own})" if match["open"] == "(" else f"{shown}:{own}"

    text = re.compile(rf"(?<![\w/.])(?:{re.escape(name)}|<kernel>|<source>)(?P<open>[(:])(?P<line>\d+)\)?")
    return text.sub(replace, message)


def list_origins(file: Path, folder: Path) -> list[tuple[Path, int]]:
    """Return for each line of what `expand_includes` gives the file that it comes from, and its line there."""
    origins: list[tuple[Path, int]] = []
    origin: tuple[Path, int] | None = None
    for text, place, first in _Expansion(Path(folder)).enter(Path(file), within=()):
        *ended, rest = text.split("\n")
        for line in range(first, first + len(ended)):
            origins.append(origin or (place, line))
            origin = None
        if rest and origin is None:
            origin = place, first + len(ended)
    return origins if origin is None else [*origins, origin]


Piece = tuple[str, Path, int]
"""Text, its file, and the line where it begins in that file."""


class _Expansion:
    """Replace includes by texts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.once: set[Path] = set()
        self.characters = 0

    def enter(self, file: Path, within: tuple[Path, ...]) -> list[Piece]:
        return self.expand(read_source(file), file, within)

    def expand(self, text: str, file: Path, within: tuple[Path, ...]) -> list[Piece]:
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            raise FamilyError(
                f"{within[0] if within else file} grows beyond {MAX_CHARACTERS} characters with its includes; "
                "give the included files `#pragma once`"
            )
        pieces: list[Piece] = []
        begin = 0
        for match in _TOKEN.finditer(text):
            is_once = match["once"] is not None and bool(within)
            if match["include"] is not None or is_once:
                pieces.append((text[begin : match.start()], file, 1 + text.count("\n", 0, begin)))
                begin = match.end()
            if match["include"] is not None:
                pieces += self.include(match["include"], file, (*within, file.resolve()))
            elif is_once:
                self.once.add(file.resolve())
        return [*pieces, (text[begin:], file, 1 + text.count("\n", 0, begin))]

    def include(self, name: str, file: Path, inside: tuple[Path, ...]) -> list[Piece]:
        for beside in (file.parent, self.folder):
            found = (beside / name).resolve()
            if found.is_file():
                return [] if found in inside or found in self.once else self.enter(found, inside)
        raise FamilyError(
            f'{file} includes "{name}", which is neither beside it nor in {self.folder}; '
            f"write #include <{name}> for a header of the toolkit"
        )


def read_source(file: Path) -> str:
    r"""Return a source file's text with line ends as \n, or raise `FamilyError` where it cannot be read as UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FamilyError(f"{file} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise FamilyError(f"{file} cannot be read: {error.strerror or error}") from None
