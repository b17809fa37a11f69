"""The text of a function with all that it uses, gathered from the live function, as a Python file by itself.

A `@triton.jit` function becomes such a file, since the processes that compile it import no script. Of a function typed
into a notebook the text is what its results are known by.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import math
import sys
import sysconfig
import textwrap
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.families.arrays import digest_of, home_of
from cuprof.families.callables import find_import, unwrap
from cuprof.families.functions import closure_of
from cuprof.families.modules import Definition, global_names, imported_files, parse_text, without_registration

TUNING = "autotune"
"""The decorator that chooses among configurations, which is no part of any of them."""
_INSTALLED = (
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(__file__).resolve().parents[1],
)


@lru_cache(maxsize=64)
def source_of(function: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a `@triton.jit` function with all that it uses, and further files that count.

    Raises:
        UsageError: it uses what cannot be told in text.
    """
    source = _Source()
    source.bind(getattr(unwrap(function), "__name__", ""), function)
    search = [f"import sys\n\nsys.path += {list(source.folders)!r}"] if source.folders else []
    return "\n\n".join([*search, *source.lines]) + "\n", tuple(source.files)


def find_source(value: Any) -> str:
    """Return a text that tells a function and all that it uses from any other one.

    Raises:
        UsageError: the text of a function is not known.
    """
    source = _Contents()
    source.bind("function", value)
    return "\n\n".join(source.lines) + "\n"


class _Source:
    """Gather the lines of a file, each thing before what uses it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.folders: dict[str, None] = {}
        self.files: dict[str, None] = {}
        self._names: dict[str, Any] = {}

    def bind(self, name: str, value: Any) -> None:
        """Add the lines that give a value a name.

        Raises:
            UsageError: it cannot be told in text, or another value has the name.
        """
        if name in self._names:
            if self._names[name] is not value and not _is_equal(self._names[name], value):
                raise UsageError(f"two things that the functions use are called {name}; rename one of them")
            return
        self._names[name] = value
        text = literal(value)
        if text is not None:
            if "triton.language" in text:
                self.bind("triton", sys.modules["triton"])
            self.lines.append(f"{name} = {text}")
        elif isinstance(value, ModuleType):
            self._note_origin(value)
            self.lines.append(f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}")
        elif (found := find_import(value)) is not None and not self.is_text(value, found[0]):
            self._note_origin(sys.modules[found[0]])
            self.lines.append(f"from {found[0]} import {found[1]}" + (f" as {name}" if name != found[1] else ""))
        else:
            self.bind_text(name, value)

    def is_text(self, value: Any, module: str) -> bool:
        """Return whether something that can be imported stands here as text: nobody imports a script to compile."""
        return unwrap(value) is not None and own_folder(sys.modules[module]) is not None

    def bind_text(self, name: str, value: Any) -> None:
        """Add the text of a function, after what it uses."""
        function = unwrap(value)
        if function is None or (value is not function and function.__globals__.get(function.__name__) is not value):
            raise UsageError(
                f"{name} is a {type(value).__name__} that a call has made, which cannot be told in text; use a "
                "decorator, make it in the function that uses it, or put it into a file"
            )
        self.add_text(name, function, _without_tuning(definition_text(function)))

    def add_text(self, name: str, function: FunctionType, text: str) -> None:
        """Add a function's text under its own name and the given one, after what it uses."""
        own = function.__name__
        self.bind_used(text, {**function.__globals__, **closure_of(function)}, own)
        is_definition = text.startswith(("def ", "class ", "@", "async "))
        self.lines.append(text if is_definition else f"{name if own == '<lambda>' else own} = {text}")
        if own not in (name, "<lambda>"):
            if self._names.setdefault(own, function) is not function:
                raise UsageError(f"two things that the functions use are called {own}; rename one of them")
            self.lines.append(f"{name} = {own}")

    def bind_used(self, text: str, surroundings: dict[str, Any], own: str) -> None:
        """Bind the names that a text takes from what surrounds it."""
        for used in sorted(global_names(text) - {own}):
            if used in surroundings and surroundings[used] is not getattr(builtins, used, surroundings):
                self.bind(used, surroundings[used])

    def _note_origin(self, module: ModuleType) -> None:
        """Remember where a module of the user's own lies, and the files whose contents count for it."""
        folder = own_folder(module)
        if folder is not None:
            self.folders[str(folder)] = None
            self.files |= dict.fromkeys(map(str, imported_files(Path(str(module.__file__)).resolve())))


class _Contents(_Source):
    """Gather what tells contents apart: nobody runs it, so anything can be told."""

    def __init__(self) -> None:
        super().__init__()
        self._met: dict[int, tuple[str, Any]] = {}

    def bind(self, name: str, value: Any) -> None:
        """Add the lines about a value; an object that is met again, also inside itself, is named."""
        if literal(value) is None:
            known, _ = self._met.setdefault(id(value), (name, value))
            if known != name:
                self.lines.append(f"{name} = {known}")
                return
        while name in self._names and self._names[name] is not value:
            name += "'"
        super().bind(name, value)

    def is_text(self, value: Any, module: str) -> bool:
        """Return False: what can be imported is known by its name, and its file counts beside."""
        return False

    def bind_text(self, name: str, value: Any) -> None:
        """Add what a value holds."""
        if home_of(value) is not None:
            self.lines.append(f"{name} = array of SHA-256 {digest_of({name: value})}")
        elif isinstance(value, functools.partial):
            self._bind_parts(name, {"func": value.func, "args": value.args, **value.keywords})
        elif isinstance(value, MethodType):
            self._bind_parts(name, {"self": value.__self__, "function": value.__func__})
        elif isinstance(value, tuple | list):
            self._bind_parts(name, {str(number): one for number, one in enumerate(value)})
        elif isinstance(value, dict):
            self._bind_parts(name, {str(key): one for key, one in value.items()})
        elif isinstance(value, type):
            self._bind_class(name, value)
        elif (function := unwrap(value)) is not None:
            defaults = {"defaults": function.__defaults__, "named defaults": function.__kwdefaults__}
            self._bind_parts(name, {key: one for key, one in defaults.items() if one})
            self.add_text(name, function, definition_text(function))
        else:
            self.bind(type(value).__name__, type(value))
            self._bind_parts(name, {"type": type(value).__name__, **getattr(value, "__dict__", {})})

    def _bind_class(self, name: str, value: type) -> None:
        try:
            text = _class_text(value)
        except UsageError:
            if value.__module__ == "__main__":
                raise
            self.lines.append(f"{name} = {value.__module__}.{value.__qualname__}")
            return
        self.bind_used(text, vars(sys.modules[value.__module__]), value.__name__)
        self.lines.append(text)

    def _bind_parts(self, name: str, parts: dict[str, Any]) -> None:
        for key, one in parts.items():
            self.bind(f"{name}.{key}", one)


def definition_text(function: FunctionType) -> str:
    """Return the text of a function alone, without what it uses, indented as at top level.

    Raises:
        UsageError: it is not known, or that of several lambdas.
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise UsageError(
            f"the text of {function.__name__} is not known (it was typed into the plain interpreter); "
            "put it into a file or a notebook"
        )
    source = parse_text(Path(code.co_filename), "".join(lines))
    found = source.definition(code)
    if not isinstance(found, list):
        return source.segment(found)
    same = [one for one in found if _code_of(one) == _shape_of(code)] or found
    if len({ast.dump(one) for one in same}) > 1:
        raise UsageError(
            f"several lambdas stand in line {code.co_firstlineno} of {code.co_filename}; give one a line of its own"
        )
    return source.segment(same[0])


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
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return f"numpy.{value.dtype.name}({literal(value.item())})"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if type(value) is dict:
        parts = [_joined((key, one), ": ") for key, one in value.items()]
        return None if None in parts else f"{{{', '.join(map(str, parts))}}}"
    if type(value) in (list, tuple):
        text = _joined(value, ", ")
        return text and (f"[{text}]" if type(value) is list else f"({text}{',' if len(value) == 1 else ''})")
    if type(value).__module__.partition(".")[0] == "triton" and type(value).__name__ == "constexpr":
        plain = literal(value.value)
        return plain and f"triton.language.constexpr({plain})"
    return None


def _is_equal(one: Any, other: Any) -> bool:
    return literal(one) is not None and literal(one) == literal(other)


def _joined(values: Iterable[Any], between: str) -> str | None:
    parts = [literal(value) for value in values]
    return None if None in parts else between.join(map(str, parts))


def _class_text(value: type) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        raise UsageError(
            f"the text of class {value.__name__} is not known; put it into a file that can be imported"
        ) from None
    node = ast.parse(text).body[0]
    return text.rstrip() if isinstance(node, Definition) else without_registration(node)


def _without_tuning(text: str) -> str:
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [one for one in node.decorator_list if not _tunes(one)]
    return ast.unparse(tree)


def _tunes(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == TUNING


def _code_of(node: ast.Lambda) -> tuple[Any, ...]:
    compiled = compile(ast.Expression(node), "", "eval").co_consts
    return _shape_of(next(one for one in compiled if isinstance(one, CodeType)))


def _shape_of(code: CodeType) -> tuple[Any, ...]:
    plain = tuple(one for one in code.co_consts if not isinstance(one, CodeType))
    return code.co_varnames, code.co_names + code.co_freevars, plain
