r"""The text of a variant's source in any language, as it is hashed, stored and compiled.

    .cu .cl .c .cpp …     every `#include "…"` replaced by the included file's text; `#include <…>` stays
    .py                   a Triton file, with the files that it imports
    anything else         as it is, or in base 64 if it is not text: a cubin, a fatbin, an executable

The text names no included file, so renaming one changes nothing, and editing one changes every source that includes
it. Comments are part of it. Line ends become \n.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.syntax import imported_files, read_source

INCLUDING = frozenset({".cu", ".cl", ".c", ".cc", ".cpp", ".cxx", ".h", ".cuh", ".hpp"})
"""Suffixes of files whose `#include`s are expanded."""
TRITON = ".py"
IMAGES = frozenset({".ptx", ".cubin", ".fatbin"})
"""Suffixes of compiled files that are loaded as they are."""
ENCODED = "base64:"
"""The beginning of the text of a binary file."""
SEPARATOR = "\n# ---- "
"""Separates the files of a Python source; the name of the next file follows."""
MAX_CHARACTERS = 8_000_000
"""More than any person writes; stops includes that double at every level."""
MAX_INCLUDES, MAX_DEPTH = 20_000, 200
"""Includes of a source in all, where people write hundreds, and within one another, as many as compilers allow."""

_TOKEN = re.compile(
    r"""(?P<passed>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*")"""
    r"""|^[ \t]*\#[ \t]*include[ \t]*"(?P<include>[^"\n]+)\""""
    r"""|^[ \t]*\#[ \t]*pragma[ \t]+once\b(?P<once>)""",
    re.MULTILINE | re.DOTALL,
)


def read_variant_source(file: Path, folder: Path) -> str:
    """Return the text of a source file of a folder; raise `FamilyError` where it, or one it needs, cannot be read."""
    if file.suffix in INCLUDING:
        return expand_includes(file, folder)
    if file.suffix == TRITON:  # the file's text, then the texts of the files that it imports, by name
        others = sorted(one for one in imported_files(file) if one != file and one.is_relative_to(folder))
        parts = (f"{SEPARATOR}{path.relative_to(folder)}\n{read_source(path)}" for path in others)
        return read_source(file) + "".join(parts)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise FamilyError(f"{file} cannot be read: {error.strerror or error}") from None
    with suppress(UnicodeDecodeError):
        if b"\0" not in content:
            return content.decode()
    return ENCODED + base64.b64encode(content).decode()


def to_bytes(text: str) -> bytes:
    """Return the bytes of a file from its text, without the remarks in the lines behind them."""
    return base64.b64decode(text[len(ENCODED) :].partition("\n")[0]) if text.startswith(ENCODED) else text.encode()


def write_python(text: str, folder: Path) -> Path:
    """Write the files of a Python source into a folder as a package, and return the path of the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("")
    for part in f"main_.py\n{text}".split(SEPARATOR):
        name, _, content = part.partition("\n")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / "main_.py"


def expand_includes(file: Path, folder: Path, text: str | None = None) -> str:
    """Return the text of a file with its local includes expanded, recursively.

    A name is searched for beside the including file, then in `folder`. A file with `#pragma once` enters once, and a
    file never enters inside itself.

    Args:
        text: the file's own text, if it is in no file.

    Raises:
        FamilyError: a file is missing or is not UTF-8 text, or the text or its includes pass a limit.
    """
    pieces = _Expansion(folder).expand(file, (), read_source(file) if text is None else text)
    return "".join([piece for piece, _, _ in pieces])


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
    origins, begins = list[tuple[Path, int]](), True
    for text, place, first in _Expansion(folder).expand(file, (), read_source(file)):
        for line, content in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), first):
            origins += [(place, line)] if begins else []
            begins = content.endswith("\n")
    return origins


@dataclass
class _Expansion:
    """Replace includes by pieces: text, its file, and the line where it begins in that file."""

    folder: Path
    once: set[Path] = field(default_factory=set)
    characters: int = 0
    includes: int = 0
    find: Callable[[str, Path, Path], Path] = field(default_factory=lambda: cache(_find_included))
    read: Callable[[Path], str] = field(default_factory=lambda: cache(read_source))

    def expand(self, file: Path, within: tuple[Path, ...], text: str) -> list[tuple[str, Path, int]]:
        inside = (*within, file if within else file.resolve())
        main = inside[0]
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            raise FamilyError(f"{main} grows beyond {MAX_CHARACTERS} characters; give its includes `#pragma once`")
        pieces, begin, line = list[tuple[str, Path, int]](), 0, 1
        for match in _TOKEN.finditer(text):
            if match["include"] is None and (match["once"] is None or not within):
                continue
            pieces.append((text[begin : match.start()], file, line))
            line += text.count("\n", begin, match.end())
            begin = match.end()
            if match["include"] is None:
                self.once.add(file)
                continue
            self.includes += 1
            if self.includes > MAX_INCLUDES:
                raise FamilyError(f"{main} has more than {MAX_INCLUDES} includes in all; give these `#pragma once`")
            if len(inside) > MAX_DEPTH:
                raise FamilyError(f"{main} nests includes more than {MAX_DEPTH} deep; include some files directly")
            found = self.find(match["include"], file, self.folder)
            if found not in inside and found not in self.once:
                pieces += self.expand(found, inside, self.read(found))
        return [*pieces, (text[begin:], file, line)]


def _find_included(name: str, file: Path, folder: Path) -> Path:
    for beside in (file.parent, folder):
        with suppress(OSError, RuntimeError, ValueError):  # a long name, links in a circle, a zero byte
            if (found := (beside / name).resolve()).is_file():
                return found
    raise FamilyError(
        f'{file} includes "{name[:200]}", which is neither beside it nor in {folder}; '
        f"write #include <{name[:200]}> for a header of the toolkit"
    )
