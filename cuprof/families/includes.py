"""Expand the local includes of a CUDA C++ or OpenCL C source into one text.

The text is what is hashed, stored and may be compiled: it holds no file name, so renaming or moving a file changes
nothing, and editing an included file changes every source that includes it. Comments are part of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cuprof.core.errors import FamilyError

MAX_CHARACTERS = 8_000_000
"""More than any source that a person writes; stops includes that double at every level."""

_TOKEN = re.compile(
    r"""(?P<passed>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*")"""
    r"""|^[ \t]*\#[ \t]*include[ \t]*"(?P<include>[^"\n]+)\""""
    r"""|^[ \t]*\#[ \t]*pragma[ \t]+once\b(?P<once>)""",
    re.MULTILINE | re.DOTALL,
)


def expand_includes(file: Path, folder: Path) -> str:
    r"""Return the text of `file` with every `#include "…"` replaced by the included file's text, recursively.

    A name is looked for beside the including file, then in `folder`. `#include <…>` stays. A file with `#pragma once`
    enters once; a file that includes itself through others is not entered again inside itself. Line ends become \n.

    Raises:
        FamilyError: a file is missing or is not UTF-8 text, or the text grows beyond `MAX_CHARACTERS`.
    """
    return _Expansion(Path(folder)).enter(Path(file), within=())


def expand_text(text: str, folder: Path, name: str) -> str:
    """Return a source that is no file with its local includes, looked for in `folder`, expanded."""
    return _Expansion(Path(folder)).expand(text, Path(folder) / name, within=())


def relocate(message: str, name: str | None, folder: Path | None) -> str:
    """Return a compiler's message with the lines of an expanded source as those of the files that they come from.

    Compilers are given one text. Where they speak of its lines, as "NAME(12)", "NAME:12" or, of a source without a
    name, "<kernel>:12", the file that line 12 was included from is named, and the line there.

    Args:
        name: of the source in the folder, and what the compiler was told the text is called; None where there is none.
        folder: as `expand_includes` was given it.
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
    expansion = _Expansion(Path(folder), marked=True)
    origins: list[tuple[Path, int]] = []
    inside: list[list[int]] = []
    for line in f"{expansion.enter(Path(file), within=())}".split("\n"):
        origin: tuple[Path, int] | None = None
        for part in re.split(r"(\x01\d+\x02|\x03)", line):
            if part.startswith("\x01"):
                inside.append([int(part[1:-1]), 1])
            elif part == "\x03":
                origin = origin or (expansion.entered[inside[-1][0]], inside[-1][1])
                inside.pop()
            elif part:
                origin = origin or (expansion.entered[inside[-1][0]], inside[-1][1])
        if inside:
            origins.append(origin or (expansion.entered[inside[-1][0]], inside[-1][1]))
            inside[-1][1] += 1
        elif origin is not None:
            origins.append(origin)
    return origins


class _Expansion:
    """Replace includes by texts.

    Args:
        marked: put the place of a file in `entered` at its beginning, and another mark at its end.
    """

    def __init__(self, folder: Path, *, marked: bool = False) -> None:
        self.folder, self.marked = folder, marked
        self.entered: list[Path] = []
        self.once: set[Path] = set()
        self.characters = 0

    def enter(self, file: Path, within: tuple[Path, ...]) -> str:
        text = self.expand(read_source(file), file, within)
        if not self.marked:
            return text
        self.entered.append(file)
        return f"\x01{len(self.entered) - 1}\x02{text}\x03"

    def expand(self, text: str, file: Path, within: tuple[Path, ...]) -> str:
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            raise FamilyError(
                f"{within[0] if within else file} grows beyond {MAX_CHARACTERS} characters with its includes; "
                "give the included files `#pragma once`"
            )
        inside = (*within, file.resolve())

        def replace(match: re.Match[str]) -> str:
            if match["include"] is not None:
                return self.include(match["include"], file, inside)
            if match["once"] is not None and within:
                self.once.add(file.resolve())
                return ""
            return match[0]

        return _TOKEN.sub(replace, text)

    def include(self, name: str, file: Path, inside: tuple[Path, ...]) -> str:
        for beside in (file.parent, self.folder):
            found = (beside / name).resolve()
            if found.is_file():
                return "" if found in inside or found in self.once else self.enter(found, inside)
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
