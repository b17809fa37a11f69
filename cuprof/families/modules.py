"""Python files of a family, parsed but not imported: which statement binds which name, and what a statement uses."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType

from cuprof.core.errors import FamilyError
from cuprof.families.includes import read_source

REGISTERING = {
    "family": frozenset({"kernel", "cuda", "opencl", "triton", "program", "library", "cpu"}),
    "cuprof": frozenset({"kernel", "compare"}),
}
"""`@family.cpu(...)` only registers: what is written there is no part of what the function does."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class SourceFile:
    """One parsed file: `bindings` maps a module-level name to the top-level statements that bind it."""

    path: Path
    text: str
    tree: ast.Module
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def definition(self, code: CodeType) -> Definition | list[ast.Lambda]:
        """Return the definition that a code object was compiled from: a function, or the lambdas of its line."""
        lambdas = []
        for node in ast.walk(self.tree):
            if isinstance(node, Definition) and node.name == code.co_name:
                if code.co_firstlineno in (node.lineno, *(decorator.lineno for decorator in node.decorator_list[:1])):
                    return node
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                lambdas.append(node)
        if not lambdas:
            raise FamilyError(
                f"{self.path} has no {code.co_name} at line {code.co_firstlineno}; it was changed since it was imported"
            )
        return lambdas

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

    def relative(self, level: int, module: str | None) -> tuple[Path, Path | None]:
        """Return (folder, file) that `from ..module import` reaches from here; file None where there is none."""
        folder = self.path.parent
        for _ in range(level - 1):
            folder = folder.parent
        parts = module.split(".") if module else []
        return folder.joinpath(*parts), find_module(folder.joinpath(*parts)) if parts else None


@lru_cache(maxsize=128)
def parse_text(path: Path, text: str) -> SourceFile:
    """Return Python text, as of the file at a path, parsed; once as long as it stays the same."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise FamilyError(f"{path}, line {error.lineno}: {error.msg}") from None
    source = SourceFile(path, text, tree)
    for statement in tree.body:
        for name in bound_names(statement):
            source.bindings.setdefault(name, []).append(statement)
    return source


def parse_file(path: Path) -> SourceFile:
    """Return a parsed Python file; parsed once as long as its text stays the same."""
    return parse_text(path, read_source(path))


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


def imported_files(file: Path) -> list[Path]:
    """Return a Python file and those beside and below it that it imports, directly or through others.

    A file of another kind, such as a definition's JSON, imports nothing.
    """
    if file.suffix != ".py":
        return []
    folder, found, waiting = file.parent, [], [file]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.append(current)
        for node in ast.walk(parse_file(current).tree):
            names = imported_names(node)
            if isinstance(node, ast.ImportFrom):
                names += [f"{names[0]}.{one.name}" for one in node.names]
            for name in names:
                start = current.parent if name.startswith(".") else folder
                module = find_module(start.joinpath(*filter(None, name.split("."))))
                if module is not None:
                    waiting.append(module)
    return found


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the module-level names that a top-level statement binds, "*" for a star import."""
    if isinstance(node, Definition):
        yield node.name
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from bound_names(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            for statement in child.body:
                yield from bound_names(statement)
        else:
            names = (inner for inner in ast.walk(child) if isinstance(inner, ast.Name))
            yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def kept_decorators(node: Definition) -> list[ast.expr]:
    """Return the decorators that change what the function does: all but `@family.cpu(...)` and its like."""
    return [one for one in node.decorator_list if not registers(one)]


def registers(decorator: ast.expr) -> bool:
    """Return whether a decorator is `family.cpu(...)`, `cuprof.kernel(...)` or their like."""
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
            node = ast.parse(ast.unparse(node)).body[0]
            assert isinstance(node, Definition)
            node.decorator_list = kept
    return ast.unparse(node)


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


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions and comprehensions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested_codes(each)
