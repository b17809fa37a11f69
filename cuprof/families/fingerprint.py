"""The texts in a trial's identity: the variant's own source, and the family's contract.

A kernel variant's text is its source (see `cuprof.families.sources`). Its Python function does not count: the `Program`
that it returns holds the launches, macros and buffers. The text of a library or CPU variant is its function and
everything that it uses from the family's files. Names of files do not count; comments do.

The live function is followed: its globals, closure, defaults and decorators, and the objects that they hold. So a
function in a table counts, and so does a method attached to a class. Functions and classes of the family enter by their
text, data and arrays by their value, and installed packages by name: a trial's identity has their versions.

A module that a function imports when it runs may not be loaded yet, so its file is read instead: the statements that
bind the imported names, and their dependencies.

A function that `exec` made, or whose module was loaded by its path alone, enters by what Python compiled of it.

All Python files of the family enter if the uses cannot be known. The function may use an object without a readable
value (a compiled kernel, a lock), `globals()`, or an import by a computed name. Or a file is read, and importing the
family does more than bind names.

A file that a function opens when it runs does not count. Read it into a constant at module level, and it does.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import importlib
import inspect
import re
import secrets
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from operator import attrgetter
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.families import syntax
from cuprof.families.model import Family, Variant
from cuprof.families.sources import TRITON, expand_includes, read_variant_source
from cuprof.families.syntax import Import, SourceFile, is_cell, nested_codes, parse_file, python_files

CONTRACT = ("signature", "generate", "reference", "tolerance")
"""The functions that make the inputs and say which results are right."""
SAID = ("in_place", "any_order", "at_most", "error_rate")
"""Settings of the family that decide this too, if they differ from the default."""
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
LONGEST_VALUE = 4000
"""Constants up to this many characters enter as they are; a longer one enters by its SHA-256."""


def source_text(family: Family, variant: Variant) -> str:
    """Return the text of one variant; editing another variant does not change it.

    Raises:
        FamilyError: a file is missing or unreadable, or the family was not loaded from a folder.
    """
    place = _place_of(family)
    folder = place.parent if place.is_file() else place
    if variant.text:
        text = expand_includes(folder / variant.name, folder, variant.text)
    elif variant.kind == "kernel":
        text = read_variant_source(folder / (variant.source or ""), folder)
    else:
        text = function_text(variant.content or variant.make, place)
    remark = "#" if Path(variant.source or "").suffix == TRITON else "//"
    for path in (folder / file for file in variant.files):
        try:
            with path.open("rb") as stream:
                text += f"\n{remark} file of SHA-256 {hashlib.file_digest(stream, 'sha256').hexdigest()}\n"
        except OSError as error:
            raise FamilyError(f"{path}, which a variant names, cannot be read: {error.strerror or error}") from None
    return text


def contract_text(family: Family, variant: Variant | None = None) -> str:
    """Return the text of the functions in `CONTRACT` with all that they use, and the settings in `SAID`.

    A variant's own tolerance, if it has one, replaces the family's.
    """
    place = _place_of(family)
    functions = dict(family.contract) or {part: getattr(family, part) for part in CONTRACT}
    if variant is not None and variant.tolerance is not None:
        functions["tolerance"] = variant.tolerance
    if family.verify is not None:
        functions.setdefault("verify", family.verify)
    said = {part: getattr(family, part) for part in SAID if getattr(family, part) != getattr(Family, part)}
    texts = [f"# {part}\n{function_text(function, place)}" for part, function in functions.items()]
    return "\n".join([*texts, *(f"# {part}\n{value!r}\n" for part, value in said.items())])


def _place_of(family: Family) -> Path:
    if family.folder is None:
        raise FamilyError(f"family {family.name} has no folder; load it with cuprof.families.origin.load_family")
    return family.path or family.folder


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def function_text(function: Callable[..., Any], place: Path) -> str:
    """Return the text of a function and its dependencies in a family's files, by first use.

    The text depends neither on the names of files nor on where in a file a definition stands.

    Args:
        place: the family's folder, or its single file.

    Raises:
        FamilyError: a file was changed since it was imported, or cannot be parsed.
    """
    closure = _Closure(place, function)
    shown = [] if closure.text == getattr(function, "__name__", "") else [f"# {closure.text}"]
    files = [file.read_bytes().decode("utf-8", "backslashreplace") for file in closure.list_files()]
    return "\n\n".join([*closure.texts, *shown, *sorted(files)]) + "\n"  # names of files decide nothing


def installed_modules(function: Callable[..., Any], place: Path) -> tuple[str, ...]:
    """Return the installed packages, apart from the standard library, that a function and its dependencies import."""
    closure = _Closure(place, function)
    trees = [parse_file(file).tree for file in closure.list_files() if closure.whole]
    named = [name for tree in trees for node in ast.walk(tree) for name in syntax.imported_names(node)]
    packages = closure.packages.union(name.partition(".")[0] for name in named)
    return tuple(sorted(packages - sys.stdlib_module_names - {"", "cuprof"}))


class _Closure:
    """Gather the dependencies of a function, each definition once."""

    def __init__(self, place: Path, function: Callable[..., Any]) -> None:
        self.place = place = place.resolve()
        self.folder = place.parent if place.is_file() else place
        self.alone = frozenset(syntax.imported_files(place)) if place.is_file() else None
        self.texts: list[str] = []
        self.packages: set[str] = set()
        self.whole = False
        self._read: set[tuple[Path, str]] = set()
        self._described: dict[int, tuple[object, str]] = {}
        self._labels = Counter[str]()
        self._owned: dict[str, bool] = {}
        self.text = ""
        try:
            self.text = self.describe(function)
        except RecursionError:  # data that are nested too deep
            self.whole = True

    def list_files(self) -> list[Path]:
        """Return all Python files of the family where they count."""
        files = [*python_files(self.place)] if self.whole or self._read else []
        with suppress(FamilyError, RecursionError, MemoryError):  # broken, or too deep
            return files if self.whole or not all(parse_file(file).is_inert for file in files) else []
        return files

    def describe(self, value: Any, imported: str = "") -> str:
        """Return one text for equal values, the same in every process, and add the code that is in it.

        `imported` is the full name that a file imports it by.
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
        function = None if is_instance else self.own_function(value)
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
        if function is not None and value is function:
            return self.add_function(function)
        if function is not None:
            return self.describe_wrapped(value, function)
        if is_instance:
            slots = {name: getattr(value, name, None) for name in getattr(kind, "__slots__", ())}
            held = [*value.items()] if isinstance(value, Mapping) else [*value] if isinstance(value, CONTAINERS) else []
            return self.describe_parts("object", (kind, {**slots, **getattr(value, "__dict__", {})}, held))
        return self.describe_foreign(value, imported)

    def own_function(self, value: Any) -> FunctionType | None:
        """Return the function of the family's in a value, or None."""
        function = unwrap(value)
        is_own = function is not None and (self.owns(function.__code__.co_filename) or self.is_made(function))
        return function if is_own else None

    def is_made(self, function: FunctionType) -> bool:
        """Return whether no installed module has a function, so that nothing but its code says what it does."""
        module = sys.modules.get(str(function.__globals__.get("__name__")))
        is_installed = module is not None and vars(module) is function.__globals__ and module.__name__ != "__main__"
        return not is_installed or self.owns(getattr(module, "__file__", None))

    def describe_parts(self, name: str, value: Any) -> str:
        """Return the text of what holds other values."""
        parts = value
        if isinstance(value, Mapping):
            parts = [part for pair in value.items() for part in pair]
        elif isinstance(value, AbstractSet):
            names = {id(one): getattr(one, "__qualname__", type(one).__name__) for one in value}
            parts = sorted(value, key=lambda one: str(plain_text(one) or names[id(one)]))
        return f"{name}({', '.join([self.describe(part) for part in parts])})"

    def describe_wrapped(self, value: Any, function: FunctionType) -> str:
        """Return the text of a wrapped function, with Numba's options or the wrapper's tables."""
        held = getattr(value, "targetoptions", None)
        if isinstance(value, FunctionType):
            held = {key: one for key, one in vars(value).items() if type(one) in CONTAINERS}
        text = self.describe(function)
        return self.describe_parts(text, held) if held else text

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
        label = self.make_label(function, function.__code__.co_name)
        attached = {f"{label}.{name}": value for name, value in vars(function).items() if not name.startswith("__")}
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
        bound = {**closure_of(function), **defaults, **attached}
        if not self.owns(function.__code__.co_filename):
            self.add_code(function, bound)
            return label
        source = parse_file(Path(function.__code__.co_filename))
        for node in source.definition(function.__code__):
            self.add_definition(source, node, function.__globals__, bound)
        return label

    def add_code(self, function: FunctionType, bound: Mapping[str, Any]) -> None:
        """Add the code of a function that stands in no file, with the values of the names in it."""
        self.whole = True  # what it looks up when it runs shows in no text
        place = len(self.texts)
        self.texts.append(code_text(function.__code__))
        names = {name for code in nested_codes(function.__code__) for name in code.co_names}
        values = {**{name: value for name, value in function.__globals__.items() if name in names}, **bound}
        lines = [line for name, value in sorted(values.items()) for line in self.bind(name, value, {()})]
        self.texts[place] += "".join(f"\n# {line}" for line in lines)

    def add_class(self, kind: type) -> str:
        """Add the text of a class and the members that its text does not show; return the name for it."""
        source = parse_file(Path(str(file_of(kind))))
        label = self.make_label(kind, kind.__name__)
        nodes = [one for one in ast.walk(source.tree) if isinstance(one, ast.ClassDef) and one.name == kind.__name__]
        for node in nodes:
            held = {f"{label}.{name}": value for name, value in self.list_members(source, node, kind)}
            self.add_definition(source, node, vars(sys.modules[kind.__module__]), held)
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
            # as by a named tuple
            is_generated = name.startswith("_") and self.own_function(inner) is None and not full_name(inner)
            if not name.startswith("__") and (is_data or not (is_said or is_generated)):
                yield name, value

    def add_definition(
        self, source: SourceFile, node: ast.stmt | ast.Lambda, values: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> None:
        """Add a definition's text and its dependencies: its module's `values`, and others `bound` in its scope."""
        place = len(self.texts)
        self.texts.append(source.segment(node))
        tree = syntax.stripped(node, with_defaults=False)
        chains = syntax.dotted_names(tree)
        lines: list[str] = []
        for name in sorted(syntax.used_names(tree) - bound.keys()):
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
            root = imported.partition(".")[0] or "."  # a script imports what is beside it by this name
            beside = syntax.find_module(self.folder / root)
            is_own = self.alone is not None and beside is not None and self.owns(str(beside))
            text = self.describe(value, "" if is_own else imported)
            if text != last:
                yield f"{name} = {text}"

    def look_into(self, file: Path, tree: ast.AST, chains: Mapping[str, Chains]) -> None:
        """Add the imports that code makes when it runs, and every file if it looks names up."""
        self.whole |= syntax.looks_up(tree)
        for node in ast.walk(tree):
            if isinstance(node, Import):
                self.read_import(file, node, chains)

    def read_import(
        self, file: Path, node: Import, chains: Mapping[str, Chains], wanted: set[str] | None = None
    ) -> None:
        """Add the wanted names that an import takes from the family's files, and record packages."""
        level, is_own = getattr(node, "level", 0), False
        for bound, name, found in syntax.imported_modules(node, file, self.folder):
            if self.owns(str(found)) and (self.alone is not None or level):
                is_own = True
                taken = {(name,)} if name else chains.get(bound, {()})
                if wanted is None or bound in wanted:
                    self.read({chain[0] if chain else "" for chain in taken}, found)
        if not is_own:
            self.packages.update(each.partition(".")[0] for each in syntax.imported_names(node))
            self.whole |= bool(level)

    def read(self, names: set[str], file: Path) -> None:
        """Add the statements of a file that bind names, and their dependencies, as written."""
        source = parse_file(file)
        known = {name for statement in source.tree.body for name in syntax.bound_names(statement)}
        self.whole |= any(name not in known and not hasattr(builtins, name) for name in names)
        for statement in source.tree.body:
            wanted = {name for name in names & syntax.bound_names(statement) if (file, name) not in self._read}
            if not wanted:
                continue
            self._read |= {(file, name) for name in wanted}
            if isinstance(statement, Import):
                self.texts += [f"# {line}" for line in syntax.import_lines(statement, wanted)]
                self.read_import(file, statement, source.chains, wanted)
                continue
            self.texts.append(source.segment(statement))
            tree = syntax.stripped(statement)
            self.look_into(file, tree, source.chains)
            self.read(syntax.used_names(tree), file)

    def make_label(self, value: object, name: str) -> str:
        """Return the name for a function or class: its own, numbered if another one has it, too."""
        self._labels[name] += 1
        label = name if self._labels[name] == 1 else f"{name}#{self._labels[name]}"
        self._described[id(value)] = value, label
        return label

    def owns(self, file: str | None) -> bool:
        """Return whether a file belongs to the family; code typed into a notebook always does."""
        if file is not None and file not in self._owned:
            real = Path(file).resolve()
            is_below = Path(file).is_relative_to(self.folder) or real.is_relative_to(self.folder)  # links may lead out
            is_beside = real.parent == self.folder and real.suffix == ".py"  # a script may load it by a computed name
            is_own = is_below if self.alone is None else is_beside or real in self.alone
            self._owned[file] = is_cell(file) or is_own
        return file is not None and self._owned[file]


def code_text(code: CodeType) -> str:
    """Return a text for what Python compiled, without the names of files and the numbers of lines."""
    inner = [code_text(one) if isinstance(one, CodeType) else plain_text(one) for one in code.co_consts]
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return f"{code.co_name}: {shape} {names} {code.co_code.hex()} {code.co_exceptiontable.hex()} {inner}"


def full_name(value: Any) -> str:
    """Return the full name of an object in its module, or an empty text."""
    if isinstance(value, ModuleType):
        return value.__name__
    named = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    places = [(getattr(value, "__module__", None) or type(value).__module__, named)]
    if not hasattr(value, "__dict__"):  # torch.float32 has no name but this
        places.append(repr(value).rpartition(".")[::2])
    for module, name in places:
        found = sys.modules.get(str(module))
        for part in str(name).split("."):
            found = getattr(found, part, None)
        if found is value and module != "__main__":
            return f"{module}.{name}"
    return ""


def file_of(kind: type) -> str | None:
    """Return the file of a class; one that was typed into a notebook is found by its functions."""
    codes = (one.__code__.co_filename for one in vars(kind).values() if isinstance(one, FunctionType))
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or next(codes, None)


def plain_text(value: Any) -> str | None:
    """Return a text of plain data that is the same in every process, or None where the value is anything else."""
    try:
        text = _plain(value)
    except RecursionError:  # it holds itself
        return None
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


def unwrap(value: Any, names: Sequence[str] = ("py_func", "__wrapped__", "__func__")) -> FunctionType | None:
    """Return the Python function inside a Numba dispatcher, static method or wrapper, in one of these attributes."""
    for _ in range(32):
        inner = None
        for name in names:
            with suppress(Exception):  # an object may raise whatever it likes where it is asked for an attribute
                inner = getattr(value, name, None) if inner is None else inner
        if inner is None or isinstance(value, type):
            break
        value = inner
    return value if isinstance(value, FunctionType) else None


def closure_of(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function uses from enclosing scopes, by name."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # a name that its scope has not bound yet
            values[name] = cell.cell_contents
    return values
