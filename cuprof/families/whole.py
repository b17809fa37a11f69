"""When the Python text of a family's whole folder counts, because what code uses cannot be told from its text.

Two things defeat following names: a statement that finds a name when it runs (`globals()`, `import_module(name)`), and
a file that may change at import what a name stands for after it was bound (`TABLE["f"] = f`, `@register`). What either
reaches is not worked out: once one is met, every Python file of the folder counts. Any file may change what another
one's names stand for, so the folder is judged as a whole, not the files that a variant happens to name.

Not seen: a call that changes something else, such as B, in an assignment (`A = helper(B)`), around what is
registered, in a default argument, an annotation or a class's bases.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.modules import Definition, SourceFile, global_names, imported_files, parse_file, registers

GLOBALS = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "__import__", "builtins", "__builtins__", "__loader__", "__spec__"}
)
"""Told from methods and local names that are called the same: `inputs.eval()` is no lookup."""

REACHING = frozenset(
    {"__dict__", "__globals__", "__import__", "__init_subclass__", "__subclasses__", "builtins", "import_module"}
    | {"_getframe", "currentframe", "f_globals", "f_locals", "get_objects", "getmodule", "modules", "reload"}
    | {"exec_module", "load_module", "module_from_spec", "resolve_name", "run_module", "run_path"}
)
"""What leads to a namespace, a module or subclasses as an attribute, a name imported or an argument of getattr."""


def whole_texts(place: Path) -> list[str]:
    """Return the texts of all Python files of a family, sorted by what is in them: names of files decide nothing."""
    return sorted(file.read_bytes().decode("utf-8", "backslashreplace") for file in python_files(place))


def changes_names(place: Path) -> bool:
    """Return whether a Python file of a family may change, at import, what a name stands for after it was bound."""
    states = ((file, file.stat()) for file in python_files(place))
    return not all(_is_plain_file(file, state.st_mtime_ns, state.st_size) for file, state in states)


@functools.lru_cache(maxsize=4096)
def _is_plain_file(file: Path, modified_ns: int, size: int) -> bool:
    """Return whether all statements of a file are plain; once for each version of it: every variant asks of all."""
    try:
        source = parse_file(file)
        return all(_is_plain(source, statement) for statement in _leaves(source.tree.body))
    except (FamilyError, RecursionError, MemoryError):  # broken, or too deep; it may be neither when it is imported
        return False


def looks_up(source: SourceFile, tree: ast.AST, text: str) -> bool:
    """Return whether a statement of a file may reach what it does not name.

    Args:
        source: the file.
        tree: the statement, parsed.
        text: its text, which tells names of the module and builtins from local ones.
    """
    used = global_names(text)
    harmless = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _imports_installed(node)}
    return any(id(node) not in harmless and _looks_up(source, node, used) for node in ast.walk(tree))


def _looks_up(source: SourceFile, node: ast.AST, used: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in GLOBALS and node.id in used
    if isinstance(node, ast.Attribute):
        return node.attr in REACHING
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value in REACHING
    if isinstance(node, ast.alias):
        return node.name in REACHING
    if isinstance(node, ast.ImportFrom):
        return node.module == "builtins"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
        # A local object came from code that counts; a module or class of the family may hold what no code names.
        dynamic = node.func.id in ("getattr", "setattr", "delattr") and not isinstance(node.args[1], ast.Constant)
        return dynamic and _root(node.args[0]) in used and not _is_foreign(source, _root(node.args[0]))
    return False


def _imports_installed(call: ast.Call) -> bool:
    """Return whether an import names a module in full: the name of a family's own package is not for writing."""
    if ast.unparse(call.func) not in ("importlib.import_module", "__import__") or len(call.args) != 1 or call.keywords:
        return False
    module = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    return isinstance(module, str) and not module.startswith((".", "_cuprof_family"))


def python_files(place: Path) -> Iterator[Path]:
    """Yield those in and below a folder; of a family that is one file, that one and what it imports from beside it."""
    yield from imported_files(place) if place.is_file() else _files_below(place)


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield them, of linked folders too; each folder once, since links may run in circles."""
    seen: set[str] = set()
    for where, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        folders[:] = [] if real in seen else [one for one in folders if one != "__pycache__" and one[0] != "."]
        if real not in seen:
            seen.add(real)
            yield from (Path(where, one) for one in files if one.endswith(".py") and one[0] != ".")


def _is_plain(source: SourceFile, statement: ast.stmt) -> bool:
    """Return whether a statement does nothing at import but bind names of its own file, or register variants."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass | ast.Raise):
        return True
    if isinstance(statement, ast.Expr):
        value = statement.value
        call = isinstance(value, ast.Call) and (registers(value) or registers(value.func))
        return isinstance(value, ast.Constant) or call
    if isinstance(statement, ast.Assign):
        return all(_binds_names(target) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return _binds_names(statement.target)
    if not isinstance(statement, Definition):
        return False
    run = [one for one in statement.decorator_list if not registers(one)]
    if isinstance(statement, ast.ClassDef):
        run += [keyword.value for keyword in statement.keywords]  # a metaclass
        for inner in _leaves(statement.body):
            hook = getattr(inner, "name", None) in ("__init_subclass__", "__set_name__")  # run by other classes
            if hook or not _is_plain(source, inner):
                return False
    return all(_is_foreign_expression(source, one) for one in run)


def _leaves(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, the branches of `try` and of an `if` that calls nothing in their place."""
    for one in statements:
        if isinstance(one, ast.Try):
            yield from _leaves([*one.body, *(s for h in one.handlers for s in h.body), *one.orelse, *one.finalbody])
        elif isinstance(one, ast.If) and ast.unparse(one.test) == "__name__ == '__main__'":
            yield from _leaves(one.orelse)
        elif isinstance(one, ast.If) and not any(isinstance(node, ast.Call) for node in ast.walk(one.test)):
            yield from _leaves([*one.body, *one.orelse])
        else:
            yield one


def _binds_names(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(_binds_names(one) for one in target.elts)
    return isinstance(target, ast.Name)


def _is_foreign_expression(source: SourceFile, node: ast.expr) -> bool:
    """Return whether an expression uses no name of the family; `@x.setter` in a class is taken for foreign."""
    if isinstance(node, ast.Attribute) and node.attr in ("setter", "getter", "deleter"):
        return True
    return all(_is_foreign(source, one.id) for one in ast.walk(node) if isinstance(one, ast.Name))


def _is_foreign(source: SourceFile, name: str) -> bool:
    """Return whether a module-level name stands for a builtin, something of an installed package or a constant."""
    if name not in source.bindings:
        return hasattr(builtins, name)
    for one in _leaves(source.bindings[name]):
        imported = isinstance(one, ast.Import) or (isinstance(one, ast.ImportFrom) and not one.level)
        if not imported and not (isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)):
            return False
    return True


def _root(node: ast.expr) -> str:
    """Return the name at the head of `a.b.c`, or "" for what is no such chain."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
