"""The text of a `@triton.jit` function with all that it uses, as a Python file by itself.

The processes that compile it import no script.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
import sysconfig
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from cuprof.core.errors import UsageError
from cuprof.families.calling import find_import, unwrap
from cuprof.families.fingerprint import closure_of
from cuprof.families.syntax import global_names, imported_files, is_cell, parse_file

_INSTALLED = (
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(__file__).resolve().parents[1],
)


def source_of(function: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a `@triton.jit` function with all that it uses, and further files that count.

    What has no text raises `UsageError`.
    """
    source = _Source()
    source.bind(getattr(unwrap(function), "__name__", ""), function)
    search = [f"import sys\n\nsys.path += {list(source.folders)!r}"] if source.folders else []
    return "\n\n".join([*search, *source.lines]) + "\n", tuple(source.files)


class _Source:
    """Gather the lines of a file, each thing before what uses it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.folders: dict[str, None] = {}
        self.files: dict[str, None] = {}
        self._names: dict[str, Any] = {}

    def bind(self, name: str, value: Any) -> None:
        """Add the lines that give a value a name; raise `UsageError` where it has no text, or the name is taken."""
        text, found = literal(value), find_import(value)
        if name in self._names:
            if self._names[name] is not value and (text is None or text != literal(self._names[name])):
                raise UsageError(f"two things that the functions use are called {name}; rename one of them")
            return
        self._names[name] = value
        if text is not None:
            if "triton.language" in text:
                self.bind("triton", sys.modules["triton"])
            self.lines.append(f"{name} = {text}")
        elif isinstance(value, ModuleType):
            self._import(value, f"import {value.__name__}", name, value.__name__)
        elif found is None or (unwrap(value) is not None and own_folder(sys.modules[found[0]])):
            self._bind_text(name, value)  # also what a script could import: the processes that compile import none
        else:
            self._import(sys.modules[found[0]], f"from {found[0]} import {found[1]}", name, found[1])

    def _import(self, module: ModuleType, line: str, name: str, own: str) -> None:
        """Add an import, and note where a module of the user's own lies, and the files whose contents count for it."""
        self.lines.append(line if name == own else f"{line} as {name}")
        if (folder := own_folder(module)) is not None:
            self.folders[str(folder)] = None
            self.files |= dict.fromkeys(map(str, imported_files(Path(str(module.__file__)).resolve())))

    def _bind_text(self, name: str, value: Any) -> None:
        """Add the text of a function, after its dependencies, under its own name and the given one."""
        function = unwrap(value)
        if function is None or (value is not function and function.__globals__.get(function.__name__) is not value):
            remedy = "use a decorator, make it in the function that uses it, or put it into a file"
            kind = type(value).__name__
            raise UsageError(f"{name} is a {kind} that a call has made, which has no text of its own; {remedy}")
        text, own = _read_definition(function), function.__name__
        surroundings = {**function.__globals__, **closure_of(function)}
        for used in sorted(global_names(text) - {own}):
            if used in surroundings and surroundings[used] is not getattr(builtins, used, surroundings):
                self.bind(used, surroundings[used])
        self.lines.append(text if text.startswith(("def ", "@", "async ")) else f"{name} = {text}")
        if own not in (name, "<lambda>"):
            if self._names.setdefault(own, value) is not value:
                raise UsageError(f"two things that the functions use are called {own}; rename one of them")
            self.lines.append(f"{name} = {own}")


def _read_definition(function: FunctionType) -> str:
    """Return the text of a function alone, at top level, without the decorator that tunes it; or raise `UsageError`."""
    code = function.__code__
    if not is_cell(code.co_filename) and not Path(code.co_filename).is_file():
        typed = f"the text of {function.__name__} is not known (it was typed into the plain interpreter)"
        raise UsageError(f"{typed}; put it into a file or a notebook")
    source = parse_file(Path(code.co_filename))
    tree = ast.parse(source.segment(source.definition(code)[0]))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            called = {one: ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list}
            node.decorator_list = [one for one, name in called.items() if name.rpartition(".")[2] != "autotune"]
    return ast.unparse(tree)


def own_folder(module: ModuleType) -> Path | None:
    """Return the folder that a module of the user's own is imported from; None for an installed one."""
    file = Path(getattr(module, "__file__", None) or "/").resolve()
    if not file.is_file() or file.suffix != ".py" or any(file.is_relative_to(place) for place in _INSTALLED):
        return None
    folder = file.parents[module.__name__.count(".") + (file.name == "__init__.py")]
    return None if any(folder.glob("*.dist-info")) else folder


def literal(value: Any) -> str | None:
    """Return Python text of plain data or of a constant for Triton's kernels, or None."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if type(value).__module__.partition(".")[0] == "triton" and type(value).__name__ == "constexpr":
        plain = literal(value.value)
        return plain and f"triton.language.constexpr({plain})"
    try:
        return repr(value) if ast.literal_eval(repr(value)) == value else None
    except (ValueError, SyntaxError, TypeError, RecursionError):
        return None
