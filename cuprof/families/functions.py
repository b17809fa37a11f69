"""Gather the text of a Python function and everything that it uses from its family's files.

The live function is followed: its globals, closure, defaults and decorators, and the objects that they hold. So a
function in a table counts, and so does a method attached to a class. Functions and classes of the family enter by their
text, data and arrays by their value, and installed packages by name: a trial's identity has their versions.

A module that a function imports when it runs may not be loaded yet, so its file is read instead: the statements that
bind the imported names, and their dependencies.

All Python files of the family enter if the uses cannot be known. The function may use an object without a readable
value (a compiled kernel, a lock), `globals()`, or an import by a computed name. Or a file is read, and importing the
family does more than bind names.

A file that a function opens when it runs does not count. Read it into a constant at module level, and it does.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import re
import secrets
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from pathlib import Path, PurePath
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.families.model import Family
from cuprof.families.modules import (
    SourceFile,
    find_module,
    imported_files,
    imported_modules,
    imported_names,
    is_cell,
    parse_file,
    python_files,
)
from cuprof.families.names import (
    bound_names,
    dotted_names,
    import_lines,
    looks_up,
    used_names,
    without_defaults,
    without_registration,
)
from cuprof.families.values import attributes_of, closure_of, defaults_of, file_of, full_name, plain_text, unwrap

CONTAINERS = (tuple, list, set, frozenset, dict, OrderedDict, defaultdict, deque, MappingProxyType)
HOLDERS = {
    "partial": (functools.partial, ("func", "args", "keywords")),
    "method": (MethodType, ("__self__", "__func__")),
    "property": (property, ("fget", "fset", "fdel")),
}
"""What holds other functions: its name, its class, and the attributes that hold them."""
LOOKUPS = (globals, locals, vars, eval, exec, __import__, importlib.import_module, importlib.reload)
REACHING = (*LOOKUPS, builtins, sys.modules)
"""Objects that give access to names that the code does not mention."""
_OPAQUE: dict[int, tuple[object, str]] = {}
"""Notebook objects that have no distinguishing content, each with a name of its own."""
Chains = AbstractSet[tuple[str, ...]]


def function_text(function: Callable[..., Any], place: Path) -> str:
    """Return the text of a function and its dependencies in a family's files, by first use.

    The text depends neither on the names of files nor on where in a file a definition stands.

    Args:
        place: the family's folder, or its single file.

    Raises:
        FamilyError: a file was changed since it was imported, or cannot be parsed.
    """
    closure = _Closure(place)
    text = closure.follow(function)
    shown = [] if text == getattr(function, "__name__", "") else [f"# {text}"]
    return "\n\n".join([*closure.texts, *shown, *closure.whole_texts()]) + "\n"


def installed_modules(function: Callable[..., Any], place: Path) -> tuple[str, ...]:
    """Return the installed packages, apart from the standard library, that a function and its dependencies import."""
    closure = _Closure(place)
    closure.follow(function)
    trees = [parse_file(file).tree for file in python_files(closure.place)] if closure.whole else []
    named = [name for tree in trees for node in ast.walk(tree) for name in imported_names(node)]
    packages = closure.packages.union(name.partition(".")[0] for name in named)
    return tuple(sorted(packages - sys.stdlib_module_names - {"", "cuprof"}))


class _Closure:
    """Gather the dependencies of a function, each definition once."""

    def __init__(self, place: Path) -> None:
        self.place = place = place.resolve()
        self.folder = place.parent if place.is_file() else place
        self.alone = frozenset(imported_files(place)) if place.is_file() else None
        self.texts: list[str] = []
        self.packages: set[str] = set()
        self.whole = False
        self._read: set[tuple[Path, str]] = set()
        self._described: dict[int, tuple[object, str]] = {}
        self._labels: set[str] = set()
        self._owned: dict[str, bool] = {}

    def follow(self, function: Callable[..., Any]) -> str:
        """Add all that a function uses; return the text of the function itself."""
        try:
            return self.describe(function)
        except RecursionError:  # data that are nested too deep
            self.whole = True
            return ""

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

    def describe(self, value: Any, imported: str = "") -> str:
        """Return one text for equal values, the same in every process, and add the code that is in it.

        Args:
            imported: the full name that a file imports it by.
        """
        plain = plain_text(value)
        if plain is not None:
            return plain
        if id(value) not in self._described:
            self._described[id(value)] = value, type(value).__name__  # for what leads back to it
            self._described[id(value)] = value, self._describe(value, imported)
        return self._described[id(value)][1]

    def _describe(self, value: Any, imported: str) -> str:
        kind = type(value)
        is_class = isinstance(value, type) and self.owns(file_of(value))
        is_instance = not is_class and self.owns(file_of(kind))
        function = None if is_instance else unwrap(value)
        if function is not None and not self.owns(function.__code__.co_filename):
            function = None
        if any(value is one for one in REACHING) or (kind is dict and "__builtins__" in value):
            self.whole = True
            return kind.__name__
        if imported and not (function or is_class or is_instance):
            return self.describe_foreign(value, imported)
        if kind in CONTAINERS:
            return self.describe_parts(kind.__name__, value)
        for name, (holder, parts) in HOLDERS.items():
            if isinstance(value, holder):
                return self.describe_parts(name, attrgetter(*parts)(value))
        if isinstance(value, PurePath):
            return str(value.relative_to(self.folder) if value.is_relative_to(self.folder) else value)
        if is_class:
            return self.add_class(value)
        if function is not None:
            return self.add_function(function) if value is function else self.describe_wrapped(value, function)
        if is_instance:
            held = [*value.items()] if isinstance(value, Mapping) else [*value] if isinstance(value, CONTAINERS) else []
            return self.describe_parts("object", (kind, attributes_of(value), held))
        return self.describe_foreign(value, imported)

    def describe_parts(self, name: str, value: Any) -> str:
        """Return the text of what holds other values."""
        parts = value
        if isinstance(value, Mapping):
            parts = [part for pair in value.items() for part in pair]
        elif isinstance(value, AbstractSet):
            parts = sorted(
                value, key=lambda one: str(plain_text(one) or getattr(one, "__qualname__", type(one).__name__))
            )
        return f"{name}({', '.join([self.describe(part) for part in parts])})"

    def describe_wrapped(self, value: Any, function: FunctionType) -> str:
        """Return the text of a wrapped function, with Numba's options or the wrapper's tables."""
        held = getattr(value, "targetoptions", None)
        if isinstance(value, FunctionType):
            held = {key: one for key, one in vars(value).items() if type(one) in CONTAINERS}
        return self.describe_parts(self.describe(function), held) if held else self.describe(function)

    def describe_foreign(self, value: Any, imported: str) -> str:
        """Return the full name of an object of Python or of an installed package; without one, all files count."""
        kind = type(value)
        name = imported or full_name(value)
        module = sys.modules.get(str(getattr(value, "__module__", "")))
        if not name or self.owns(getattr(module, "__file__", None)):
            self.whole = True
            name = f"{kind.__module__}.{kind.__qualname__}"
            if not any(python_files(self.place)):  # from a notebook: it cannot be identified, so it counts as new
                name += f" {_OPAQUE.setdefault(id(value), (value, secrets.token_hex(8)))[1]}"
        root = name.partition(".")[0]
        self.packages |= {root, kind.__module__.partition(".")[0]}
        return f"cuprof.{name.rpartition('.')[2]}" if root == "cuprof" else name

    def add_function(self, function: FunctionType) -> str:
        """Add a function's text and all its dependencies; return the name for it."""
        source = parse_file(Path(function.__code__.co_filename))
        label = self.make_label(function, function.__code__.co_name)
        attached = {f"{label}.{name}": value for name, value in vars(function).items() if not name.startswith("__")}
        bound = {**closure_of(function), **defaults_of(function), **attached}
        for node in source.definition(function.__code__):
            self.add_definition(source, node, function.__globals__, bound)
        return label

    def add_class(self, kind: type) -> str:
        """Add the text of a class and the members that its text does not show; return the name for it."""
        module = sys.modules[kind.__module__]
        source = parse_file(Path(str(file_of(kind))))
        label = self.make_label(kind, kind.__name__)
        nodes = [
            node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__
        ]
        for node in nodes:
            held = {f"{label}.{name}": value for name, value in self.list_members(source, node, kind)}
            self.add_definition(source, node, vars(module), held)
        self.whole |= not nodes
        for part in (*kind.__mro__[1:], type(kind)):
            if self.owns(file_of(part)):
                self.describe(part)
        return label

    def list_members(self, source: SourceFile, node: ast.ClassDef, kind: type) -> Iterator[tuple[str, Any]]:
        """Yield a class's members that its text does not show: changed values and attached functions."""
        text = source.segment(node)
        for name, value in vars(kind).items():
            inner = next((each for key in ("fget", "func") if (each := getattr(value, key, None))), value)
            function = unwrap(inner)
            is_said = re.search(rf"\b{name}\b", text) is not None and not callable(inner)
            if function is not None:
                code = function.__code__
                is_here = Path(code.co_filename).resolve() == source.path.resolve()
                is_said = is_here and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
            is_data = type(value) in CONTAINERS or plain_text(value) is not None
            is_own = function is not None and self.owns(function.__code__.co_filename)
            is_generated = name.startswith("_") and not is_own and not full_name(inner)  # as by a named tuple
            if not name.startswith("__") and (is_data or not (is_said or is_generated)):
                yield name, value

    def add_definition(
        self, source: SourceFile, node: ast.stmt | ast.Lambda, values: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> None:
        """Add a definition's text and its dependencies.

        Args:
            values: the values of its module's names.
            bound: further values, by the names of its closure and defaults.
        """
        place = len(self.texts)
        self.texts.append(source.segment(node))
        tree = without_defaults(ast.parse(without_registration(node)))
        chains = dotted_names(tree)
        lines: list[str] = []
        for name in sorted(used_names(ast.unparse(tree)) - bound.keys()):
            if name in values:
                lines += self.bind(name, values[name], chains.get(name, {()}), source)
            else:
                self.whole |= getattr(builtins, name, eval) in REACHING
        for name, value in sorted(bound.items()):
            lines += self.bind(name, value, {()})
        self.texts[place] += "".join(f"\n# {line}" for line in lines)
        self.look_into(source.path, tree, chains)

    def bind(self, name: str, value: Any, chains: Chains, source: SourceFile | None = None) -> Iterator[str]:
        """Add a name's value; yield lines that bind it if the name alone does not.

        Args:
            chains: the attributes taken from it.
            source: the file that binds the name at module level.
        """
        last = name.rpartition(".")[2]
        if isinstance(value, Family):
            self.whole = True  # other variants are within its reach
        elif isinstance(value, ModuleType) and self.owns(getattr(value, "__file__", None)):
            for chain in sorted(chains):
                if chain and chain[0] in vars(value):
                    there = parse_file(Path(str(value.__file__)))
                    yield from self.bind(f"{name}.{chain[0]}", vars(value)[chain[0]], {chain[1:]}, there)
                else:
                    self.whole = True  # it is passed on, or makes attributes on request
        else:
            imported = source.imports.get(last, "") if source is not None else ""
            text = self.describe(value, imported if self.alone is None or not self.imports_own(imported) else "")
            if text != last:
                yield f"{name} = {text}"

    def look_into(self, file: Path, tree: ast.AST, chains: Mapping[str, Chains]) -> None:
        """Add the imports that code makes when it runs, and every file if it looks names up."""
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
        """Add the wanted names that an import takes from the family's files, and record packages."""
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
        """Add the statements of a file that bind names, and their dependencies, as written."""
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
        """Return the name for a function or class: its own, numbered if another one has it, too."""
        label, number = name, 1
        while label in self._labels:
            number += 1
            label = f"{name}#{number}"
        self._labels.add(label)
        self._described[id(value)] = value, label
        return label

    def owns(self, file: str | None) -> bool:
        """Return whether a file belongs to the family; code typed into a notebook always does."""
        if file is None:
            return False
        if file not in self._owned:
            real = Path(file).resolve()
            is_below = Path(file).is_relative_to(self.folder) or real.is_relative_to(self.folder)  # links may lead out
            self._owned[file] = is_cell(file) or (is_below if self.alone is None else real in self.alone)
        return self._owned[file]

    def imports_own(self, name: str) -> bool:
        """Return whether a full name begins with a module beside a script."""
        found = find_module(self.folder / (name.partition(".")[0] or "."))
        return found is not None and self.owns(str(found))
