"""Read Python files without importing them: the names that statements bind and use, and the files that they import."""

from __future__ import annotations
import __future__

import ast
import linecache
import os
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType

from cuprof.core.errors import FamilyError, UsageError
from cuprof.core.files import read_regular

REGISTERING = {
    "family": frozenset({"kernel", "cuda", "opencl", "triton", "program", "library", "cpu"}),
    "cuprof": frozenset({"kernel", "compare"}),
}
"""Decorators such as `@family.cpu(...)` only register a function and do not change what it does."""

REACHING = frozenset(
    {"__builtins__", "__dict__", "__globals__", "__import__", "__loader__", "__spec__", "__subclasses__", "builtins"}
    | {"_getframe", "currentframe", "f_globals", "f_locals", "get_objects", "getmodule", "modules", "reload"}
    | {"exec_module", "import_module", "load_module", "module_from_spec", "resolve_name", "run_module", "run_path"}
)
"""Names that give access to a namespace, a module or subclasses, as an attribute, an import or getattr's argument."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class SourceFile:
    """One parsed file."""

    path: Path
    text: str
    tree: ast.Module

    @cached_property
    def chains(self) -> dict[str, set[tuple[str, ...]]]:
        """Return the attributes taken from each name in the file; see `dotted_names`."""
        return dotted_names(self.tree)

    @cached_property
    def imports(self) -> dict[str, str]:
        """Return the full name behind each absolute import outside functions and classes."""
        found: dict[str, str] = {}
        for node in (each for one in self.tree.body if not isinstance(one, Definition) for each in ast.walk(one)):
            if isinstance(node, ast.Import):
                found |= {bound_name(one): one.name if one.asname else bound_name(one) for one in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found |= {bound_name(one): f"{node.module}.{one.name}" for one in node.names}
        return found

    @cached_property
    def is_inert(self) -> bool:
        """Return whether importing the file only binds names and registers variants."""
        foreign = [node for node in self.tree.body if imported_names(node) and not getattr(node, "level", 0)]
        own = {name for node in self.tree.body if node not in foreign for name in bound_names(node)}
        return all(_is_inert(node, own) for node in self.tree.body)

    @cached_property
    def _functions(self) -> list[Definition | ast.Lambda]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Definition | ast.Lambda)]

    def definition(self, code: CodeType) -> list[Definition | ast.Lambda]:
        """Return the definition of a code object; all lambdas of its line where their columns are unknown.

        Raises:
            FamilyError: the file has changed, and no longer has it.
        """
        flags = code.co_flags & __future__.annotations.compiler_flag
        is_unchanged = any(code in _list_codes(self.text, flags, alone) for alone in (False, True))
        found = [
            node
            for node in self._functions
            if is_unchanged
            and getattr(node, "name", "<lambda>") == code.co_name
            and code.co_firstlineno in (node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ())))
        ]
        if not found:
            gone = f"the {code.co_name} of line {code.co_firstlineno}"
            raise FamilyError(f"{self.path} no longer has {gone}; it was changed since it was imported")
        if code.co_name != "<lambda>":
            return found[:1]
        ends = [*code.co_positions()][-1][2:]  # the return of its value, which stands where the value does
        bodies = [(one, one.body) for one in found if isinstance(one, ast.Lambda)]
        return [one for one, body in bodies if (body.col_offset, body.end_col_offset) == ends] or found

    def segment(self, node: ast.stmt | ast.Lambda) -> str:
        """Return the text of a statement, indented as at top level, without the decorators that only register."""
        if isinstance(node, ast.Lambda):
            return ast.get_source_segment(self.text, node) or ast.unparse(node)
        parts = [*kept_decorators(node), node] if isinstance(node, Definition) else [node]
        lines = self.text.splitlines()
        chosen = [line for one in parts for line in lines[one.lineno - 1 : one.end_lineno]]
        return "\n".join(line.removeprefix(" " * node.col_offset).rstrip() for line in chosen)


@lru_cache(maxsize=128)
def _list_codes(text: str, flags: int, alone: bool) -> frozenset[CodeType]:
    """Return the code of every function in a Python text, as importing it makes them.

    Args:
        alone: compile each statement by itself, as a notebook does with a cell. Python calls the functions of a module
            by other instructions where it sees the import.
    """
    tree = ast.parse(text)
    parts = [ast.Module([node], []) for node in tree.body] if alone else [tree]
    codes = (compile(part, "<family>", "exec", flags, dont_inherit=True) for part in parts)
    return frozenset(code for each in codes for code in nested_codes(each))


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions and comprehensions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested_codes(each)


def read_source(file: Path) -> str:
    r"""Return a source file's text with line ends as \n, or raise `FamilyError` where it cannot be read as UTF-8."""
    try:
        text = read_regular(file).decode("utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise FamilyError(f"{file} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (UsageError, OSError) as error:
        raise FamilyError(str(error)) from None


@lru_cache(maxsize=128)
def _parse_text(path: Path, text: str) -> SourceFile:
    try:
        return SourceFile(path, text, ast.parse(text))
    except SyntaxError as error:
        raise FamilyError(f"{path}, line {error.lineno}: {error.msg}") from None


def parse_file(path: Path) -> SourceFile:
    """Return a Python file, or a cell of a notebook, parsed; the same text is parsed once."""
    return _parse_text(path, "".join(linecache.getlines(str(path))) if is_cell(str(path)) else read_source(path))


def is_cell(name: str) -> bool:
    """Return whether a file name is that of a notebook's cell, whose lines only Python has."""
    entry = linecache.cache.get(name, ())
    return len(entry) > 1 and entry[1] is None


def find_module(stem: Path) -> Path | None:
    """Return the file of the module at `folder/name`, name.py or name/__init__.py, or None."""
    return next((one for one in (Path(f"{stem}.py"), stem / "__init__.py") if one.is_file()), None)


def imported_names(node: ast.AST) -> list[str]:
    """Return the modules that an import names, with the dots of relative ones; nothing for any other node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []


def imported_modules(node: ast.AST, file: Path, folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield (bound name, name in the module or "", the module's file) for each name of an import that is in a file.

    Args:
        file: the file of the import, where relative imports start.
        folder: where other imports are searched for.
    """
    found: list[tuple[ast.alias, str, Path | None]] = []
    if isinstance(node, ast.Import):
        found = [(alias, "", find_module(folder.joinpath(*alias.name.split(".")))) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        start = file.parents[node.level - 1] if node.level else folder
        package = start.joinpath(*(node.module or "").split("."))
        module = find_module(package) if node.module else None
        found = [(alias, "" if alias.name == "*" else alias.name, module) for alias in node.names]
        if module is None or module.name == "__init__.py":
            found += [(alias, "", find_module(package / alias.name)) for alias in node.names if alias.name != "*"]
    yield from ((bound_name(alias), name, place) for alias, name, place in found if place is not None)


def imported_files(file: Path) -> list[Path]:
    """Return a Python file and those beside and below it that it imports, directly or through others.

    A file of another kind, such as a definition's JSON, imports nothing.
    """
    found: dict[Path, None] = {}
    waiting = [file] if file.suffix == ".py" else []
    while waiting:
        current = waiting.pop()
        if current not in found:
            found[current] = None
            for node in ast.walk(parse_file(current).tree):
                waiting += [module for _, _, module in imported_modules(node, current, file.parent)]
    return [*found]


def python_files(place: Path) -> Iterator[Path]:
    """Yield the Python files in and below a folder, or one file with the files beside it that it imports."""
    if place.is_file():
        yield from imported_files(place)
        return
    seen: set[str] = set()
    for where, folders, files in os.walk(place, followlinks=True):  # links may run in circles
        real = os.path.realpath(where)
        folders[:] = [] if real in seen else [one for one in folders if one != "__pycache__" and one[0] != "."]
        if real not in seen:
            seen.add(real)
            yield from (Path(where, one) for one in files if one.endswith(".py") and one[0] != ".")


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds; "*" for a star import."""
    names = set()
    for node in [statement] if isinstance(statement, Definition) else ast.walk(statement):
        if isinstance(node, Import):
            names |= {bound_name(alias) for alias in node.names}
        elif isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def bound_name(alias: ast.alias) -> str:
    """Return the name that an import binds for one of its names."""
    return alias.asname or alias.name.partition(".")[0]


def import_lines(node: Import, names: set[str]) -> list[str]:
    """Return an import's text with only these names, without cuprof's submodules; nothing for relative imports."""
    aliases = [alias for alias in node.names if bound_name(alias) in names]
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(aliases))]
    module = "cuprof" if (node.module or "").startswith("cuprof.") else node.module
    return [] if node.level else [ast.unparse(ast.ImportFrom(module, aliases, 0))]


def _is_inert(statement: ast.stmt, own: set[str]) -> bool:
    """Return whether a statement only binds names, `own` being those of the family."""
    if isinstance(statement, ast.If | ast.Try):
        is_main = isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"
        handled = [node for handler in getattr(statement, "handlers", ()) for node in handler.body]
        inside = [*statement.orelse, *getattr(statement, "finalbody", ()), *handled]
        return all(_is_inert(node, own) for node in ([] if is_main else statement.body) + inside)
    if isinstance(statement, Definition):
        used = {getattr(node, "id", "") for each in kept_decorators(statement) for node in ast.walk(each)}
        body = statement.body if isinstance(statement, ast.ClassDef) else []
        plain = not used & own and not getattr(statement, "keywords", None)
        return plain and all(_is_inert(node, own) for node in body)
    if isinstance(statement, ast.Expr):
        value = statement.value
        return isinstance(value, ast.Constant) or _registers(value) or _registers(getattr(value, "func", value))
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return not any(isinstance(node, ast.Attribute | ast.Subscript) for one in targets for node in ast.walk(one))
    return isinstance(statement, Import | ast.Pass | ast.Raise)


def kept_decorators(node: Definition) -> list[ast.expr]:
    """Return the decorators that change what a function does: all but those that register it."""
    return [one for one in node.decorator_list if not _registers(one)]


def _registers(call: ast.expr) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=decorator)):
            return decorator in REGISTERING.get(name, ())
    return False


def stripped(node: ast.AST, *, with_defaults: bool = True) -> ast.Module:
    """Return code for analysis, without the decorators that only register.

    `with_defaults` keeps those of a function's parameters; a live function has their values.
    """
    tree = ast.parse(ast.unparse(node))
    inner = tree.body[0].value if isinstance(tree.body[0], ast.Expr) else tree.body[0]
    if isinstance(inner, Definition):
        inner.decorator_list = kept_decorators(inner)
    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not with_defaults:
        inner.args.defaults = [ast.Constant(None) for _ in inner.args.defaults]
        inner.args.kw_defaults = [each and ast.Constant(None) for each in inner.args.kw_defaults]
    return tree


def used_names(tree: ast.AST) -> set[str]:
    """Return the names of the module that code uses, with builtins, annotations left out."""
    found = global_names(f"from __future__ import annotations\n{ast.unparse(tree)}")
    return {name for name in found if name != "annotations" and not name.startswith("__")}


def global_names(text: str) -> set[str]:
    """Return the names of the module that a statement uses, with builtins and annotations."""
    try:
        table = symtable.symtable(text, "<family>", "exec")
    except SyntaxError:  # a function taken out of its scope may hold a `nonlocal` that nothing binds
        return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    tables = list(table.get_children())
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return names


def dotted_names(tree: ast.AST) -> dict[str, set[tuple[str, ...]]]:
    """Return name → the attributes taken from it, for every `a.b.c` in a tree: {"a": {("b", "c")}}."""
    found: dict[str, set[tuple[str, ...]]] = {}
    nodes = [tree]
    while nodes:
        node, rest = nodes.pop(), []
        while isinstance(node, ast.Attribute):
            rest.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            found.setdefault(node.id, set()).add(tuple(reversed(rest)))
        nodes += ast.iter_child_nodes(node)
    return found


def looks_up(tree: ast.AST) -> bool:
    """Return whether code may find names, modules or subclasses that it does not mention.

    An import of an installed module by its full name, in a text, does not.
    """
    harmless: set[ast.AST] = set()
    for node in ast.walk(tree):  # a call comes before its parts
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=str(module))], keywords=[]):
                is_import = ast.unparse(function) in ("importlib.import_module", "__import__")
                harmless |= {function} if is_import and not module.startswith((".", "_cuprof_family")) else set()
            case ast.Attribute(attr=name) | ast.Constant(value=str(name)) | ast.alias(name=name) | ast.Name(id=name):
                is_plain_name = isinstance(node, ast.Name) and not name.startswith("__")
                if name in REACHING and not is_plain_name and node not in harmless:
                    return True
    return False
