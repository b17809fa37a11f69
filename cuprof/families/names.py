"""The names in Python code: which ones a statement binds, which ones it uses, and whether it looks up others."""

from __future__ import annotations

import ast
import symtable

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


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds; "*" for a star import."""
    if isinstance(statement, Definition):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {bound_name(alias) for alias in node.names}
        elif isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def bound_name(alias: ast.alias) -> str:
    """Return the name that an import binds for one of its names."""
    return alias.asname or alias.name.partition(".")[0]


def import_lines(node: ast.Import | ast.ImportFrom, names: set[str]) -> list[str]:
    """Return an import's text with only these names, without cuprof's submodules; nothing for relative imports."""
    aliases = [alias for alias in node.names if bound_name(alias) in names]
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(aliases))]
    module = "cuprof" if (node.module or "").startswith("cuprof.") else node.module
    return [] if node.level else [ast.unparse(ast.ImportFrom(module, aliases, 0))]


def list_imports(statement: ast.stmt) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports in a statement, outside functions and classes."""
    inside = [] if isinstance(statement, Definition) else ast.walk(statement)
    return [node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)]


def is_inert(statement: ast.stmt, own: set[str]) -> bool:
    """Return whether a statement only binds names, `own` being those of the family."""
    if isinstance(statement, ast.If | ast.Try):
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
            return all(is_inert(node, own) for node in statement.orelse)
        handled = [node for handler in getattr(statement, "handlers", ()) for node in handler.body]
        inside = [*statement.body, *statement.orelse, *getattr(statement, "finalbody", ()), *handled]
        return all(is_inert(node, own) for node in inside)
    if isinstance(statement, Definition):
        if {
            node.id for each in kept_decorators(statement) for node in ast.walk(each) if isinstance(node, ast.Name)
        } & own:
            return False
        body = statement.body if isinstance(statement, ast.ClassDef) else []
        return not getattr(statement, "keywords", ()) and all(is_inert(node, own) for node in body)
    if isinstance(statement, ast.Expr):
        value = statement.value
        return isinstance(value, ast.Constant) or _registers(value) or _registers(getattr(value, "func", value))
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return not any(isinstance(node, ast.Attribute | ast.Subscript) for one in targets for node in ast.walk(one))
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass | ast.Raise)


def kept_decorators(node: Definition) -> list[ast.expr]:
    """Return the decorators that change what a function does: all but those that register it."""
    return [one for one in node.decorator_list if not _registers(one)]


def _registers(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and isinstance(decorator.func.value, ast.Name)
        and decorator.func.attr in REGISTERING.get(decorator.func.value.id, ())
    )


def without_registration(node: ast.AST) -> str:
    """Return the text of a node for analysis: unformatted, and without the decorators that only register."""
    if isinstance(node, Definition):
        kept = kept_decorators(node)
        if len(kept) != len(node.decorator_list):
            fields = {**dict(ast.iter_fields(node)), "decorator_list": kept}
            node = ast.copy_location(type(node)(**fields), node)
    return ast.unparse(node)


def without_defaults(tree: ast.Module) -> ast.Module:
    """Replace the defaults of the function that a tree consists of: a live function has their values."""
    node = tree.body[0].value if isinstance(tree.body[0], ast.Expr) else tree.body[0]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
        node.args.kw_defaults = [each and ast.Constant(None) for each in node.args.kw_defaults]
    return tree


def used_names(text: str) -> set[str]:
    """Return the names of the module that a statement uses, annotations left out."""
    found = global_names(f"from __future__ import annotations\n{text}")
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
    """Return whether code may find names, modules or subclasses that it does not mention."""
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
    """Return whether a call imports a module by its full name, which no module of the family has."""
    if ast.unparse(call.func) not in ("importlib.import_module", "__import__") or len(call.args) != 1 or call.keywords:
        return False
    module = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    return isinstance(module, str) and not module.startswith((".", "_cuprof_family"))
