"""Expand the local includes of a CUDA C++ or OpenCL C source into one text.

The text is what is hashed, stored and may be compiled: it holds no file name, so renaming or moving a file changes
nothing, and editing an included file changes every source that includes it. Comments are part of it.
"""

from __future__ import annotations

import re
from pathlib import Path

from cuprof.errors import FamilyError

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


class _Expansion:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.once: set[Path] = set()
        self.characters = 0

    def enter(self, file: Path, within: tuple[Path, ...]) -> str:
        return self.expand(read_source(file), file, within)

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
