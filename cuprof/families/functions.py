"""The text of a Python function together with everything it uses from the files of its family.

A function is followed as it lives: its globals, closure, defaults and decorators, and what those hold, so that a table
of functions or an attached method counts. Functions and classes of the family enter by their text, data and arrays by
their value, installed packages by name: their versions are part of a trial's identity on their own.

Files of the family that a function imports when it runs, loaded or not, are read: the statements enter that bind the
names it takes, and what those use. All Python files of the family enter where it cannot be told what is used: an object
whose value says nothing (a compiled kernel, a lock), `globals()`, an import by a computed name, or a file to be read
where importing files does more than bind names, and so may change what they stand for.

A file that a function reads when it runs does not count; read it into a module-level constant, and it does.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import importlib
import re
import secrets
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path, PurePath
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.families.model import Family
from cuprof.families.modules import (
    SourceFile,
    bound_names,
    dotted_names,
    import_lines,
    imported_files,
    imported_modules,
    imported_names,
    is_cell,
    looks_up,
    parse_file,
    python_files,
    used_names,
    without_registration,
)

LONGEST_VALUE = 4000
"""Characters of a constant that enter as they are; a longer one enters by its SHA-256."""
CONTAINERS = (tuple, list, set, frozenset, dict, OrderedDict, defaultdict, deque, MappingProxyType)
REACHING = (
    globals,
    locals,
    vars,
    eval,
    exec,
    __import__,
    importlib.import_module,
    importlib.reload,
    builtins,
    sys.modules,
)
"""What leads to names that no code has, under whatever name it is used."""
_OPAQUE: dict[int, tuple[object, str]] = {}
"""Objects of a notebook that nothing tells apart, each with a name of its own."""
Chains = AbstractSet[tuple[str, ...]]


def function_text(function: Callable[..., Any], place: Path) -> str:
    """Return the text of a function and of what it uses from a family's files, by first use.

    The text depends neither on the names of files nor on where in a file a definition stands.

    Args:
        place: the family's folder, or the one file that it is.

    Raises:
        FamilyError: a file was changed since it was imported, or cannot be parsed.
    """
    closure = _Closure(place.resolve())
    text = closure.describe(function)
    shown = [] if text == getattr(function, "__name__", "") else [f"# {text}"]
    return "\n\n".join([*closure.texts, *shown, *closure.whole_texts()]) + "\n"


def installed_modules(function: Callable[..., Any], place: Path) -> tuple[str, ...]:
    """Return the installed packages, the standard library left out, that a function and what it uses import."""
    closure = _Closure(place.resolve())
    closure.describe(function)
    for file in python_files(closure.place) if closure.whole else ():
        closure.packages |= {
            name.partition(".")[0] for node in ast.walk(parse_file(file).tree) for name in imported_names(node)
        }
    return tuple(sorted(closure.packages - sys.stdlib_module_names - {"", "cuprof"}))


class _Closure:
    """Gather what a function uses, each definition once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place.parent if place.is_file() else place
        self.alone = frozenset(imported_files(place)) if place.is_file() else None
        self.texts: list[str] = []
        self.packages: set[str] = set()
        self.whole = False
        self._read: set[tuple[Path, str]] = set()
        self._described: dict[int, tuple[object, str]] = {}
        self._labels: set[str] = set()

    def whole_texts(self) -> list[str]:
        """Return all Python files of the family where they count, sorted by text: names of files decide nothing."""
        files = python_files(self.place) if self.whole or (self._read and not self.is_inert()) else ()
        return sorted(file.read_bytes().decode("utf-8", "backslashreplace") for file in files)

    def is_inert(self) -> bool:
        """Return whether importing the family's files does nothing but bind names."""
        try:
            return all(parse_file(file).is_inert for file in python_files(self.place))
        except (FamilyError, RecursionError, MemoryError):  # broken, or too deep
            return False

    def describe(self, value: Any) -> str:
        """Return one text for equal values, the same in every process, and add the code that is in it."""
        plain = plain_text(value)
        if plain is not None:
            return plain
        if id(value) not in self._described:
            self._described[id(value)] = value, type(value).__name__  # for what leads back to it
            self._described[id(value)] = value, self._describe(value)
        return self._described[id(value)][1]

    def _describe(self, value: Any) -> str:
        function, kind = _unwrap(value), type(value)
        if any(value is one for one in REACHING) or (kind is dict and "__builtins__" in value):
            self.whole = True
            return kind.__name__
        if kind in CONTAINERS:
            return self.describe_parts(kind.__name__, value)
        if isinstance(value, functools.partial):
            return self.describe_parts("partial", (value.func, value.args, value.keywords))
        if isinstance(value, MethodType):
            return self.describe_parts("method", (value.__self__, value.__func__))
        if isinstance(value, property):
            return self.describe_parts("property", (value.fget, value.fset, value.fdel))
        if isinstance(value, PurePath):
            return str(value.relative_to(self.folder) if value.is_relative_to(self.folder) else value)
        if isinstance(value, type) and self.owns(_file_of(value)):
            return self.add_class(value)
        if isinstance(function, FunctionType) and self.owns(function.__code__.co_filename):
            return self.add_function(function) if value is function else self.describe_wrapped(value, function)
        if self.owns(_file_of(kind)):
            return self.describe_parts(
                "object", (kind, _attributes(value), value if isinstance(value, CONTAINERS) else ())
            )
        return self.describe_foreign(value)

    def describe_parts(self, name: str, value: Any) -> str:
        """Return the text of what holds other values."""
        parts = value
        if isinstance(value, Mapping):
            parts = [part for pair in value.items() for part in pair]
        elif isinstance(value, AbstractSet):
            parts = sorted(value, key=lambda one: getattr(one, "__qualname__", None) or str(one))
        return f"{name}({', '.join([self.describe(part) for part in parts])})"

    def describe_wrapped(self, value: Any, function: FunctionType) -> str:
        """Return the text of a function with what is around it: options of Numba's, tables of overloads."""
        held = getattr(value, "targetoptions", None) or _attributes(value)
        held = {key: one for key, one in held.items() if type(one) in CONTAINERS or plain_text(one) is not None}
        held = {key: one for key, one in held.items() if not key.startswith("__")}
        return self.describe_parts(self.describe(function), held) if held else self.describe(function)

    def describe_foreign(self, value: Any) -> str:
        """Return the full name of what an installed package or Python has under one; all files count otherwise."""
        module, name = getattr(value, "__module__", None) or type(value).__module__, ""
        if isinstance(value, ModuleType):
            module = value.__name__
        else:
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or "?"
            found: Any = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is not value or module == "__main__" or self.owns_module(module):
                self.whole = True
                module, name = type(value).__module__, type(value).__qualname__
                if not any(python_files(self.place)):  # of a notebook: nothing says what it is, so it is a new one
                    name += f" {_OPAQUE.setdefault(id(value), (value, secrets.token_hex(8)))[1]}"
        root = module.partition(".")[0]
        self.packages.add(root)
        return f"{root if root == 'cuprof' else module}.{name}".strip(".")

    def add_function(self, function: FunctionType) -> str:
        """Add a function's text and all that it uses; return the name that it goes by."""
        source = parse_file(Path(function.__code__.co_filename))
        label = self.make_label(function, function.__code__.co_name)
        bound = {**closure_of(function), **_defaults(function)}
        found = source.definition(function.__code__)
        for node in found if isinstance(found, list) else [found]:
            self.add_definition(source, node, function.__globals__, bound)
        return label

    def add_class(self, kind: type) -> str:
        """Add the text of a class, and what it holds that the text does not say; return the name that it goes by."""
        module = sys.modules[kind.__module__]
        source = parse_file(Path(str(_file_of(kind))))
        label = self.make_label(kind, kind.__name__)
        nodes = [
            node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__
        ]
        for node in nodes:
            held = {f"{label}.{name}": value for name, value in self.list_members(source, node, kind)}
            self.add_definition(source, node, vars(module), held)
        self.whole |= not nodes
        for part in (*kind.__mro__[1:], type(kind)):
            if self.owns(_file_of(part)):
                self.describe(part)
        return label

    def list_members(self, source: SourceFile, node: ast.ClassDef, kind: type) -> Iterator[tuple[str, Any]]:
        """Yield what a class has that its text does not say: values that may have changed, and what was attached."""
        text = source.segment(node)
        for name, value in vars(kind).items():
            is_said = re.search(rf"\b{name}\b", text) is not None
            is_data = type(value) in CONTAINERS or plain_text(value) is not None
            if not name.startswith("__") and (is_data or not (is_said or name.startswith("_"))):
                yield name, value

    def add_definition(
        self, source: SourceFile, node: ast.stmt | ast.Lambda, values: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> None:
        """Add a definition's text and what it uses.

        Args:
            values: what the names of its module stand for.
            bound: what else it is bound to, in the names of its closure and defaults.
        """
        place = len(self.texts)
        self.texts.append(source.segment(node))
        text = without_registration(node)
        tree = ast.parse(text)
        chains = dotted_names(tree)
        lines: list[str] = []
        for name in sorted(used_names(text) - bound.keys()):
            if name in values:
                lines += self.bind(name, values[name], chains.get(name, {()}))
            else:
                self.whole |= getattr(builtins, name, eval) in REACHING
        for name, value in sorted(bound.items()):
            lines += self.bind(name, value, {()})
        self.texts[place] += "".join(f"\n# {line}" for line in lines)
        self.look_into(source.path, tree, chains)

    def bind(self, name: str, value: Any, chains: Chains) -> Iterator[str]:
        """Add what a name stands for; yield the lines that say so where the name alone does not.

        Args:
            chains: the attributes that are taken from it.
        """
        if isinstance(value, Family):
            self.whole = True  # other variants are within its reach
        elif isinstance(value, ModuleType) and self.owns(getattr(value, "__file__", None)):
            for chain in sorted(chains):
                if chain and chain[0] in vars(value):
                    yield from self.bind(f"{name}.{chain[0]}", vars(value)[chain[0]], {chain[1:]})
                else:
                    self.whole = True  # it is handed on, or it makes what is asked of it
        elif (text := self.describe(value)) != name.rpartition(".")[2]:
            yield f"{name} = {text}"

    def look_into(self, file: Path, tree: ast.AST, chains: Mapping[str, Chains]) -> None:
        """Add what code takes from imports when it runs, and everything where it looks names up."""
        self.whole |= looks_up(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.read_import(file, node, chains)

    def read_import(
        self,
        file: Path,
        node: ast.Import | ast.ImportFrom,
        chains: Mapping[str, Chains],
        wanted: set[str] | None = None,
    ) -> None:
        """Add what an import takes from the family's files, of the names that are wanted, and note packages."""
        level, is_own = getattr(node, "level", 0), False
        for bound, name, found in imported_modules(node, file, self.folder):
            if self.owns(str(found)) and (self.alone is not None or level):
                is_own = True
                taken = {(name,)} if name else chains.get(bound, {()})
                if wanted is None or bound in wanted:
                    self.read({chain[0] if chain else "" for chain in taken}, found)
        if not is_own:
            self.packages.update(each.partition(".")[0] for each in imported_names(node))
            self.whole |= bool(level)

    def read(self, names: set[str], file: Path) -> None:
        """Add the statements of a file that bind names, and what they use, as they stand there."""
        source = parse_file(file)
        known = {name for statement in source.tree.body for name in bound_names(statement)}
        self.whole |= any(name not in known and not hasattr(builtins, name) for name in names)
        for statement in source.tree.body:
            wanted = names & bound_names(statement) - {name for place, name in self._read if place == file}
            if not wanted:
                continue
            self._read |= {(file, name) for name in wanted}
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.texts += [f"# {line}" for line in import_lines(statement, wanted)]
                self.read_import(file, statement, source.chains, wanted)
                continue
            self.texts.append(source.segment(statement))
            text = without_registration(statement)
            self.look_into(file, ast.parse(text), source.chains)
            self.read(used_names(text), file)

    def make_label(self, value: object, name: str) -> str:
        """Return the name that a function or class goes by: its own, numbered where another one has it, too."""
        label, number = name, 1
        while label in self._labels:
            number += 1
            label = f"{name}#{number}"
        self._labels.add(label)
        self._described[id(value)] = value, label
        return label

    def owns(self, file: str | None) -> bool:
        """Return whether a file is the family's, as what was typed into a notebook always is."""
        if is_cell(file or ""):
            return True
        path = Path(file or "/")
        if self.alone is not None:
            return path.resolve() in self.alone
        return path.is_relative_to(self.folder) or path.resolve().is_relative_to(self.folder)  # where links lead out

    def owns_module(self, name: str) -> bool:
        return self.owns(getattr(sys.modules.get(name), "__file__", None))


def _file_of(kind: type) -> str | None:
    """Return the file of a class; one that was typed into a notebook is found by its functions."""
    codes = (one.__code__.co_filename for one in vars(kind).values() if isinstance(one, FunctionType))
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or next(codes, None)


def plain_text(value: Any) -> str | None:
    """Return a text of plain data that is the same in every process, or None where the value is anything else."""
    text = _plain(value)
    if text is not None and len(text) > LONGEST_VALUE:
        return f"{type(value).__name__} of SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    return text


def _plain(value: Any) -> str | None:
    if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes, range, re.Pattern):
        return repr(value)
    if type(value) in (tuple, list, set, frozenset):
        texts = [text for one in value if (text := _plain(one)) is not None]
        if len(texts) < len(value):
            return None
        return f"{type(value).__name__}({', '.join(sorted(texts) if isinstance(value, set | frozenset) else texts)})"
    if type(value) is dict:
        keys, values = _plain(list(value)), _plain(list(value.values()))
        return None if keys is None or values is None else f"dict({keys}, {values})"
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.dtype):
        return f"dtype({value.descr if value.names else (value.name, value.str)})"
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        if value.dtype.hasobject:
            return _plain(value.tolist())
        return f"array({_plain(value.dtype)}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
    return None


def _attributes(value: Any) -> dict[str, Any]:
    slots = {name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())}
    return {**slots, **getattr(value, "__dict__", {})}


def _unwrap(value: Any) -> Any:
    """Return the Python function inside a Numba dispatcher, a static method or a `functools.wraps` wrapper."""
    for _ in range(32):
        names = ("py_func", "__wrapped__", "__func__")
        inner = next((getattr(value, name) for name in names if hasattr(value, name)), None)
        if inner is None or isinstance(value, type):
            break
        value = inner
    return value


def closure_of(function: FunctionType) -> dict[str, Any]:
    """Return what a function uses of the scopes around it, by name."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # a name that its scope has not bound yet
            values[name] = cell.cell_contents
    return values


def _defaults(function: FunctionType) -> dict[str, Any]:
    code = function.__code__
    defaults = function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(positional, defaults, strict=True)), **(function.__kwdefaults__ or {})}
