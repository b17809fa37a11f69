"""Python files of a family, parsed but not imported: what they define, what they import, and what a definition uses."""

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

from cuprof.core.errors import FamilyError
from cuprof.families.includes import read_source

REGISTERING = {
    "family": frozenset({"kernel", "cuda", "opencl", "triton", "program", "library", "cpu"}),
    "cuprof": frozenset({"kernel", "compare"}),
}
"""`@family.cpu(...)` only registers: what is written there is no part of what the function does."""

REACHING = frozenset(
    {"__builtins__", "__dict__", "__globals__", "__import__", "__loader__", "__spec__", "__subclasses__", "builtins"}
    | {"_getframe", "currentframe", "f_globals", "f_locals", "get_objects", "getmodule", "modules", "reload"}
    | {"exec_module", "import_module", "load_module", "module_from_spec", "resolve_name", "run_module", "run_path"}
)
"""Names that lead to a namespace, a module or subclasses, as an attribute, an import or an argument of getattr."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class SourceFile:
    """One parsed file."""

    path: Path
    text: str
    tree: ast.Module

    @cached_property
    def chains(self) -> dict[str, set[tuple[str, ...]]]:
        """Return what follows each name in the file; see `dotted_names`."""
        return dotted_names(self.tree)

    @cached_property
    def is_inert(self) -> bool:
        """Return whether importing the file does nothing but bind names, or register variants."""
        imports = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        own = {name for node in self.tree.body if node not in imports for name in bound_names(node)}
        own |= {name for node in imports if getattr(node, "level", 0) for name in bound_names(node)}
        return all(_is_inert(node, own) for node in self.tree.body)

    def definition(self, code: CodeType) -> Definition | list[ast.Lambda]:
        """Return the definition that a code object was compiled from: a function, or the lambdas of its line.

        Raises:
            FamilyError: the file does not hold it any more.
        """
        lambdas = []
        is_there = code in _list_codes(self.text, code.co_flags & __future__.annotations.compiler_flag)
        for node in ast.walk(self.tree) if is_there else ():
            if isinstance(node, Definition) and node.name == code.co_name:
                if code.co_firstlineno in (node.lineno, *(decorator.lineno for decorator in node.decorator_list[:1])):
                    return node
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                lambdas.append(node)
        if not lambdas:
            raise FamilyError(
                f"{self.path} no longer has the {code.co_name} of line {code.co_firstlineno}; "
                "it was changed since it was imported"
            )
        ends = [*code.co_positions()][-1]  # the return of its value, which stands where the value does
        here = [each for each in lambdas if (each.body.col_offset, each.body.end_col_offset) == ends[2:]]
        return here or lambdas

    def segment(self, node: ast.stmt | ast.Lambda) -> str:
        """Return the text of a statement, without the decorators that only register, indented as at top level."""
        if isinstance(node, ast.Lambda):
            return ast.get_source_segment(self.text, node) or ast.unparse(node)
        parts = [(node.lineno, node.end_lineno or node.lineno)]
        if isinstance(node, Definition):
            parts[:0] = [(one.lineno, one.end_lineno or one.lineno) for one in kept_decorators(node)]
        lines = self.text.splitlines()
        chosen = [line for first, last in parts for line in lines[first - 1 : last]]
        indent = " " * node.col_offset
        return "\n".join(line.removeprefix(indent).rstrip() for line in chosen)


@lru_cache(maxsize=128)
def _list_codes(text: str, flags: int) -> frozenset[CodeType]:
    """Return the code of every function in a Python text, as importing it makes them."""
    return frozenset(nested_codes(compile(text, "<family>", "exec", flags, dont_inherit=True)))


@lru_cache(maxsize=128)
def parse_text(path: Path, text: str) -> SourceFile:
    """Return Python text, as of the file at a path, parsed; once as long as it stays the same."""
    try:
        return SourceFile(path, text, ast.parse(text))
    except SyntaxError as error:
        raise FamilyError(f"{path}, line {error.lineno}: {error.msg}") from None


def parse_file(path: Path) -> SourceFile:
    """Return a parsed Python file, or cell of a notebook; parsed once as long as its text stays the same."""
    return parse_text(path, "".join(linecache.getlines(str(path))) if is_cell(str(path)) else read_source(path))


def is_cell(name: str) -> bool:
    """Return whether Python has the lines of what is no file: what was typed into a notebook."""
    entry = linecache.cache.get(name, ())
    return len(entry) > 1 and entry[1] is None


def find_module(stem: Path) -> Path | None:
    """Return the file of the module at `folder/name`, name.py or name/__init__.py, or None."""
    for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
        if file.is_file():
            return file
    return None


def imported_names(node: ast.AST) -> list[str]:
    """Return the modules that an import names, relative ones with their dots; nothing for any other node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []


def imported_modules(node: ast.AST, file: Path, folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield (name that is bound, name in the module or "", module) of what an import finds in files.

    Args:
        file: where the import stands, which relative ones start from.
        folder: where other ones look.
    """
    if isinstance(node, ast.Import):
        found = [(alias, "", find_module(folder.joinpath(*alias.name.split(".")))) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        start = file.parents[node.level - 1] if node.level else folder
        package = start.joinpath(*(node.module or "").split("."))
        module = find_module(package) if node.module else None
        found = [(alias, "" if alias.name == "*" else alias.name, module) for alias in node.names]
        below = [(alias, "", find_module(package / alias.name)) for alias in node.names if alias.name != "*"]
        found = found if module is not None and module.name != "__init__.py" else [*found, *below]
    else:
        return
    yield from ((_bound(alias), name, place) for alias, name, place in found if place is not None)


def imported_files(file: Path) -> list[Path]:
    """Return a Python file and those beside and below it that it imports, directly or through others.

    A file of another kind, such as a definition's JSON, imports nothing.
    """
    if file.suffix != ".py":
        return []
    found: dict[Path, None] = {}
    waiting = [file]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found[current] = None
            for node in ast.walk(parse_file(current).tree):
                waiting += [module for _, _, module in imported_modules(node, current, file.parent)]
    return [*found]


def python_files(place: Path) -> Iterator[Path]:
    """Yield those in and below a folder; of a family that is one file, that one and what it imports from beside it."""
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
    """Return the names that a top-level statement binds, "*" for a star import."""
    if isinstance(statement, Definition):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {_bound(alias) for alias in node.names}
        elif isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def import_lines(node: ast.Import | ast.ImportFrom, names: set[str]) -> list[str]:
    """Return an import of those names alone as text; nothing for relative ones, and cuprof as one module."""
    aliases = [alias for alias in node.names if _bound(alias) in names]
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(aliases))]
    module = "cuprof" if (node.module or "").startswith("cuprof.") else node.module
    return [] if node.level else [ast.unparse(ast.ImportFrom(module, aliases, 0))]


def _is_inert(statement: ast.stmt, own: set[str]) -> bool:
    """Return whether a statement only binds names, `own` being those of the family."""
    if isinstance(statement, ast.If | ast.Try):
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
            return all(_is_inert(node, own) for node in statement.orelse)
        handled = [node for handler in getattr(statement, "handlers", ()) for node in handler.body]
        inside = [*statement.body, *statement.orelse, *getattr(statement, "finalbody", ()), *handled]
        return all(_is_inert(node, own) for node in inside)
    if isinstance(statement, Definition):
        if {
            node.id for each in kept_decorators(statement) for node in ast.walk(each) if isinstance(node, ast.Name)
        } & own:
            return False
        body = statement.body if isinstance(statement, ast.ClassDef) else []
        return not getattr(statement, "keywords", ()) and all(_is_inert(node, own) for node in body)
    if isinstance(statement, ast.Expr):
        value = statement.value
        return isinstance(value, ast.Constant) or _registers(value) or _registers(getattr(value, "func", value))
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return not any(isinstance(node, ast.Attribute | ast.Subscript) for one in targets for node in ast.walk(one))
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass | ast.Raise)


def kept_decorators(node: Definition) -> list[ast.expr]:
    """Return the decorators that change what the function does: all but `@family.cpu(...)` and its like."""
    return [one for one in node.decorator_list if not _registers(one)]


def _registers(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and isinstance(decorator.func.value, ast.Name)
        and decorator.func.attr in REGISTERING.get(decorator.func.value.id, ())
    )


def without_registration(node: ast.AST) -> str:
    """Return Python text of a node for analysis: formatting lost, registering decorators gone."""
    if isinstance(node, Definition):
        kept = kept_decorators(node)
        if len(kept) != len(node.decorator_list):
            fields = {**dict(ast.iter_fields(node)), "decorator_list": kept}
            node = ast.copy_location(type(node)(**fields), node)
    return ast.unparse(node)


def used_names(text: str) -> set[str]:
    """Return the names that a statement takes from the module it stands in for more than annotations."""
    found = global_names(f"from __future__ import annotations\n{text}")
    return {name for name in found if name != "annotations" and not name.startswith("__")}


def global_names(text: str) -> set[str]:
    """Return the names that a statement takes from the module it stands in, builtins among them."""
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
    """Return first name → what follows it, for every `a.b.c` in a tree: {"a": {("b", "c")}}."""
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
    """Return whether code finds names, modules or subclasses when it runs, in ways that reading it does not tell."""
    nodes = list(ast.walk(tree))
    harmless = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _imports_installed(node)}
    return any(_reaches(node) for node in nodes if id(node) not in harmless)


def _reaches(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in REACHING
    if isinstance(node, ast.Name):
        return node.id.startswith("__") and node.id in REACHING
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value in REACHING
    return isinstance(node, ast.alias) and node.name in REACHING


def _imports_installed(call: ast.Call) -> bool:
    """Return whether an import names a module in full: the name of a family's own package is not for writing."""
    if ast.unparse(call.func) not in ("importlib.import_module", "__import__") or len(call.args) != 1 or call.keywords:
        return False
    module = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    return isinstance(module, str) and not module.startswith((".", "_cuprof_family"))


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions and comprehensions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested_codes(each)
