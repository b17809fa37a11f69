"""Parse a family's Python files without importing them, and find the files that they import."""

from __future__ import annotations
import __future__

import ast
import linecache
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType

from cuprof.core.errors import FamilyError
from cuprof.families.includes import read_source
from cuprof.families.names import (
    Definition,
    bound_name,
    bound_names,
    dotted_names,
    is_inert,
    kept_decorators,
    list_imports,
)


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
        """Return the full name behind each import outside functions; relative imports are left out."""
        found = {}
        for node in (each for statement in self.tree.body for each in list_imports(statement)):
            for alias in node.names if not getattr(node, "level", 0) else ():
                module = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                name = alias.name if module or alias.asname else alias.name.partition(".")[0]
                found[bound_name(alias)] = ".".join([*module, name])
        return found

    @cached_property
    def is_inert(self) -> bool:
        """Return whether importing the file only binds names and registers variants."""
        imports = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        own = {name for node in self.tree.body if node not in imports for name in bound_names(node)}
        own |= {name for node in imports if getattr(node, "level", 0) for name in bound_names(node)}
        return all(is_inert(node, own) for node in self.tree.body)

    def definition(self, code: CodeType) -> list[Definition] | list[ast.Lambda]:
        """Return the definition of a code object; all lambdas of its line where their columns are unknown.

        Raises:
            FamilyError: the file has changed, and no longer has it.
        """
        lambdas = []
        flags = code.co_flags & __future__.annotations.compiler_flag
        is_there = any(code in _list_codes(self.text, flags, alone) for alone in (False, True))
        for node in ast.walk(self.tree) if is_there else ():
            if isinstance(node, Definition) and node.name == code.co_name:
                if code.co_firstlineno in (node.lineno, *(decorator.lineno for decorator in node.decorator_list[:1])):
                    return [node]
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
        """Return the text of a statement, indented as at top level, without the decorators that only register."""
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


@lru_cache(maxsize=128)
def parse_text(path: Path, text: str) -> SourceFile:
    """Return the text of a Python file parsed; the same text is parsed once."""
    try:
        return SourceFile(path, text, ast.parse(text))
    except SyntaxError as error:
        raise FamilyError(f"{path}, line {error.lineno}: {error.msg}") from None


def parse_file(path: Path) -> SourceFile:
    """Return a Python file, or a cell of a notebook, parsed; the same text is parsed once."""
    return parse_text(path, "".join(linecache.getlines(str(path))) if is_cell(str(path)) else read_source(path))


def is_cell(name: str) -> bool:
    """Return whether a file name is that of a notebook's cell, whose lines only Python has."""
    entry = linecache.cache.get(name, ())
    return len(entry) > 1 and entry[1] is None


def find_module(stem: Path) -> Path | None:
    """Return the file of the module at `folder/name`, name.py or name/__init__.py, or None."""
    for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
        if file.is_file():
            return file
    return None


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
    yield from ((bound_name(alias), name, place) for alias, name, place in found if place is not None)


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


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions and comprehensions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested_codes(each)
