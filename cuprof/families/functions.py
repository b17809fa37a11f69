"""The text of a Python function together with everything it uses from the files of its family.

What is followed: module-level functions, classes and assignments, in family.py and in files imported relatively, at
module level or inside a function; decorators, defaults and closures; Numba dispatchers and `functools.partial`. A
constant of the function's own module enters by its value where it is plain data, so a table read from a file counts;
anything else enters as the statement that makes it. Installed packages enter by name only: their versions are part of
a trial's identity on their own.

Where this cannot tell what is used (see `whole`), all Python files of the folder count besides.

A file that a function reads when it runs does not count; read it into a module-level constant, and it does.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from cuprof.families.model import Family
from cuprof.families.modules import (
    SourceFile,
    dotted_names,
    find_module,
    global_names,
    imported_files,
    imported_names,
    parse_file,
    without_registration,
)
from cuprof.families.whole import changes_names, looks_up, whole_texts

LONGEST_VALUE = 4000
"""Characters of a constant that enter as they are; a longer one enters by its SHA-256."""


def function_text(function: Callable[..., Any], place: Path) -> str:
    """Return the text of a function and of what it uses from a family's files: imports, then by first use.

    The text depends neither on the names of files nor on where in a file a definition stands.

    Args:
        place: the family's folder, or the one file that it is.

    Raises:
        FamilyError: a file was changed since it was imported, or cannot be parsed.
    """
    collection = _Collection(place.resolve())
    collection.add_value("function", function)
    imports = "\n".join(sorted(collection.imports))
    whole = whole_texts(collection.place) if collection.whole or changes_names(collection.place) else []
    return "\n\n".join(filter(None, (imports, *collection.texts, *whole))) + "\n"


def installed_modules(function: Callable[..., Any], place: Path) -> tuple[str, ...]:
    """Return the installed packages, the standard library left out, that a function and what it uses import."""
    collection = _Collection(place.resolve())
    collection.add_value("function", function)
    lines = ast.parse("\n".join(collection.imports)).body
    roots = {name.partition(".")[0] for line in lines for name in imported_names(line)}
    return tuple(sorted(roots - sys.stdlib_module_names - {"", "cuprof"}))


class _Collection:
    """Gather texts, each statement of each file once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place.parent if place.is_file() else place
        self.alone = frozenset(imported_files(place)) if place.is_file() else None
        self.texts: list[str] = []
        self.imports: set[str] = set()
        self.seen: set[object] = set()
        self.values: dict[Path, dict[str, Any]] = {}
        self.whole = False

    def add_value(self, name: str, value: Any) -> None:
        """Add a live object: a function by its text, plain data by value, anything else by its type's name."""
        if isinstance(value, Family):
            return
        if isinstance(value, functools.partial):
            self.add_value(name, value.func)
            for number, bound in enumerate(value.args):
                self.add_value(f"{name}[{number}]", bound)
            for key, bound in sorted(value.keywords.items()):
                self.add_value(f"{name}[{key}]", bound)
            return
        if isinstance(value, MethodType):
            self.add_value(f"{name}.self", value.__self__)
        plain = plain_text(value)
        if plain is not None:
            self.texts.append(f"{name} = {plain}")
            return
        function = _unwrap(value)
        if isinstance(function, FunctionType) and self.owns(function.__code__.co_filename):
            self.add_function(function)
        elif isinstance(value, ModuleType) and self.owns(getattr(value, "__file__", None) or "/"):
            self.whole = True
        elif isinstance(value, ModuleType):
            self.imports.add(f"import {value.__name__}")
        else:
            self.add_foreign(name, value)

    def add_function(self, function: FunctionType) -> None:
        code = function.__code__
        source = parse_file(Path(code.co_filename))
        self.values.setdefault(source.path, function.__globals__)
        closure = closure_of(function)
        bound = {**closure, **_defaults(function)}
        if not self.first(("function", id(function))):
            return
        found = source.definition(code)
        for node in found if isinstance(found, list) else [found]:
            self.add_statement(source, node, without=set(closure))
        for name, value in sorted(bound.items()):
            self.add_value(name, value)

    def add_foreign(self, name: str, value: Any) -> None:
        """Add an object that is no function: its class where the family defines it, with its plain attributes."""
        kind = value if isinstance(value, type) else type(value)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if file is not None and self.owns(file):
            self.add_name(parse_file(Path(file)), kind.__qualname__.partition(".")[0], {()})
            for key, attribute in sorted(getattr(value, "__dict__", {}).items() if value is not kind else ()):
                self.add_value(f"{name}.{key}", attribute)
        else:
            named = value if hasattr(value, "__qualname__") else kind
            self.whole |= named is not value  # a list in a closure may hold functions, an array what made it
            self.texts.append(f"{name} = {named.__module__}.{named.__qualname__}")

    def add_statement(
        self, source: SourceFile, node: ast.stmt | ast.Lambda, without: AbstractSet[str] = frozenset()
    ) -> None:
        """Add a statement's text, then all that it uses, `without` the names that something else provides."""
        if not self.first(("statement", source.path, node.lineno, node.col_offset)):
            return
        self.texts.append(source.segment(node))
        text = without_registration(node)
        tree = ast.parse(text)
        self.whole |= looks_up(source, tree, text)
        chains = dotted_names(tree)
        for name in sorted(global_names(text) - without):
            self.add_name(source, name, chains.get(name, {()}))
        for inner in ast.walk(tree):
            if isinstance(inner, ast.ImportFrom) and (inner.level or self.sibling(inner.module)):
                for alias in inner.names:
                    self.add_import(source, inner, alias, chains.get(alias.asname or alias.name, {()}))

    def add_name(self, source: SourceFile, name: str, rests: set[tuple[str, ...]]) -> None:
        """Add what a module-level name of a file stands for; `rests` are the attributes taken from it."""
        if not self.first(("name", source.path, name, frozenset(rests))):
            return
        values = self.values.get(source.path, {})
        if name == "family" or isinstance(values.get(name), Family):
            self.whole = True  # other variants are within its reach
            return
        statements = source.bindings.get(name, ())
        if not statements:
            for star in source.bindings.get("*", ()):
                if isinstance(star, ast.ImportFrom) and star.level:
                    _, file = source.relative(star.level, star.module)
                    if file is not None:
                        self.add_name(parse_file(file), name, rests)
            # A name that no statement binds is made by other means.
            self.whole |= not (hasattr(builtins, name) or name.startswith("__") or "*" in source.bindings)
            return
        if all(isinstance(one, ast.Assign | ast.AnnAssign | ast.AugAssign) for one in statements) and name in values:
            plain = plain_text(values[name])
            if plain is not None:
                if self.first(("value", source.path, name)):
                    self.texts.append(f"{name} = {plain}")
                return
        for statement in statements:
            if isinstance(statement, ast.ImportFrom) and (statement.level or self.sibling(statement.module)):
                for alias in statement.names:
                    if (alias.asname or alias.name) == name:
                        self.add_import(source, statement, alias, rests)
            elif isinstance(statement, ast.Import) and (file := self.sibling(_module_bound(statement, name))):
                self.add_module(file, rests)
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                self.add_import_line(source, statement, name)
            else:
                self.add_statement(source, statement)

    def add_import(
        self, source: SourceFile, statement: ast.ImportFrom, alias: ast.alias, rests: set[tuple[str, ...]]
    ) -> None:
        """Add what a relative import reaches: one name of a file, or the attributes used of a whole module."""
        folder, file = source.relative(statement.level or 1, statement.module)
        if alias.name == "*":
            if file is not None:
                self.add_module(file, {()})
            return
        if file is not None and self.owns(str(file)):
            imported = parse_file(file)
            if alias.name in imported.bindings or "*" in imported.bindings:
                self.add_name(imported, alias.name, rests)
                return
        submodule = find_module(folder / alias.name)
        if submodule is not None and self.owns(str(submodule)):
            self.add_module(submodule, rests)
        elif folder == self.folder:
            main = self.place if self.alone is not None else folder / "family.py"
            self.add_name(parse_file(main), alias.name, rests)
        else:
            self.whole = True

    def add_module(self, file: Path, rests: set[tuple[str, ...]]) -> None:
        """Add the names used of a module, or all of it where it is used in another way."""
        source = parse_file(file)
        for rest in sorted(rests):
            if rest and (rest[0] in source.bindings or "*" in source.bindings):
                self.add_name(source, rest[0], {rest[1:]})
            else:
                self.whole |= bool(rest) or file.name == "__init__.py"  # bound by no statement, or a module below
                for statement in source.tree.body:
                    self.add_statement(source, statement)

    def add_import_line(self, source: SourceFile, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        self.whole |= looks_up(source, statement, ast.unparse(statement))
        for alias in statement.names:
            if (alias.asname or alias.name.partition(".")[0]) == name:
                line: ast.stmt = ast.Import([alias])
                if isinstance(statement, ast.ImportFrom):
                    line = ast.ImportFrom(statement.module, [alias], 0)
                self.imports.add(ast.unparse(line))

    def first(self, key: object) -> bool:
        """Return whether this key is met for the first time."""
        met = key in self.seen
        self.seen.add(key)
        return not met

    def owns(self, file: str) -> bool:
        """Return whether a file is the family's."""
        path = Path(file).resolve()
        return path.is_relative_to(self.folder) if self.alone is None else path in self.alone

    def sibling(self, module: str | None) -> Path | None:
        """Return the file that a plain import reaches beside a family that is one file, as in a script."""
        found = find_module(self.folder.joinpath(*module.split("."))) if self.alone is not None and module else None
        return found if found is not None and self.owns(str(found)) else None


def _module_bound(statement: ast.Import, name: str) -> str:
    """Return the module that an import binds to a name; of `import a.b`, which binds `a`, that is `a.b`."""
    return next(one.name for one in statement.names if (one.asname or one.name.partition(".")[0]) == name)


def plain_text(value: Any) -> str | None:
    """Return a text of plain data that is the same in every process, or None where the value is anything else."""
    text = _plain(value)
    if text is not None and len(text) > LONGEST_VALUE:
        return f"{type(value).__name__} of SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    return text


def _plain(value: Any) -> str | None:
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if type(value) in (tuple, list, set, frozenset):
        parts = [_plain(one) for one in value]
        if any(part is None for part in parts):
            return None
        texts = [part for part in parts if part is not None]
        if isinstance(value, set | frozenset):
            texts.sort()
        return f"{type(value).__name__}({', '.join(texts)})"
    if type(value) is dict:
        keys, values = _plain(list(value)), _plain(list(value.values()))
        return None if keys is None or values is None else f"dict({keys}, {values})"
    return None


def _unwrap(value: Any) -> Any:
    """Return the Python function inside a Numba dispatcher, a bound method or a `functools.wraps` wrapper."""
    for _ in range(32):
        inner = next(
            (getattr(value, name) for name in ("py_func", "__wrapped__", "__func__") if hasattr(value, name)), None
        )
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
