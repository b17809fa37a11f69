"""The text of a variant's source file, in any language.

    .cu .cl .c .cpp …     its local includes expanded
    .py                   a Triton file, with the files that it imports relatively
    .ptx                  as it is
    anything else         as it is, or in base 64 if it is not text: a cubin, a fatbin, an executable

This text is hashed, stored and compiled.
"""

from __future__ import annotations

import ast
import base64
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.includes import expand_includes
from cuprof.families.modules import find_module, parse_file

INCLUDING = frozenset({".cu", ".cl", ".c", ".cc", ".cpp", ".cxx", ".h", ".cuh", ".hpp"})
"""Suffixes of files whose `#include`s are expanded."""
TRITON = ".py"
IMAGES = frozenset({".ptx", ".cubin", ".fatbin"})
"""Suffixes of compiled files that are loaded as they are."""
ENCODED = "base64:"
"""The beginning of the text of a binary file."""
SEPARATOR = "\n# ---- "
"""Separates the files of a Python source; the name of the next file follows."""


def read_variant_source(file: Path, folder: Path) -> str:
    """Return the text of a source file; see the module's docstring.

    Raises:
        FamilyError: it, or a file that it needs, is missing or cannot be read.
    """
    if file.suffix in INCLUDING:
        return expand_includes(file, folder)
    if file.suffix == TRITON:
        return _read_python(file, folder)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise FamilyError(f"{file} cannot be read: {error.strerror or error}") from None
    if b"\0" not in content:
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass
    return ENCODED + base64.b64encode(content).decode()


def to_bytes(text: str) -> bytes:
    """Return the bytes of a file from its text, without the remarks in the lines behind them."""
    return base64.b64decode(text[len(ENCODED) :].partition("\n")[0]) if text.startswith(ENCODED) else text.encode()


def write_python(text: str, folder: Path) -> Path:
    """Write the files of a Python source into a folder as a package, and return the path of the first one."""
    first, *others = text.split(SEPARATOR)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("")
    for other in others:
        name, _, content = other.partition("\n")
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    path = folder / "main_.py"
    path.write_text(first)
    return path


def _read_python(file: Path, folder: Path) -> str:
    """Return a file's text, then the texts of the files that it imports relatively, by name."""
    found: dict[Path, str] = {}
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        source = parse_file(path)
        found[path] = source.text
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                modules = [find_module(path.parent / name.replace(".", "/")) for name in names]
                waiting += [module for module in modules if module is not None]
    first = found.pop(file)
    rest = (f"{SEPARATOR}{path.relative_to(folder)}\n{text}" for path, text in sorted(found.items()))
    return first + "".join(rest)
