"""Find code in a candidate's file that has no place in a kernel: hints for a reader, not proof."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from cuprof import families
from cuprof.core.errors import CuprofError
from cuprof.families.candidate import PYTHON, SOLUTION
from cuprof.interop.schema import list_python
from cuprof.judge.report import Evidence

UNUSUAL_MODULES = {
    "atexit": "runs code when the process ends",
    "builtins": "changes what every function sees",
    "ctypes": "reaches memory and libraries past Python",
    "faulthandler": "concerns crashes",
    "gc": "finds other code's objects",
    "importlib": "finds or replaces modules",
    "inspect": "looks at the calling code",
    "mmap": "shares memory between processes",
    "multiprocessing": "starts processes",
    "pickle": "runs what it reads",
    "signal": "interrupts other code",
    "socket": "speaks to the network",
    "subprocess": "starts programs",
    "sys": "reaches other modules and frames",
    "threading": "works beside what is timed",
    "weakref": "runs code when objects go",
}
UNUSUAL_CALLS = ("exec", "eval", "compile", "__import__", "setattr", "globals", "vars")
INNER = "cuprof"
PUBLIC = ("cuprof.families", "cuprof.family", "cuprof.interop")
MOST = 12


def suspect(file: Path) -> tuple[Evidence, ...]:
    """Return the unusual code in a Python file or a solution; sources of kernels are not searched."""
    found: list[tuple[int, str]] = []
    try:
        texts = [file.read_text(encoding="utf-8-sig")] if file.suffix == PYTHON else []
        for text in list_python(file) if file.suffix == SOLUTION else texts:
            tree = ast.parse(text)
            imported = {name for node in ast.walk(tree) for name in _imported(node)}
            found += sorted((line, said) for node in ast.walk(tree) for line, said in _oddities(node, imported))
    except (RecursionError, MemoryError):
        return (Evidence("unusual", "it is nested too deeply to be read", counts=False),)
    except (OSError, ValueError, SyntaxError, CuprofError):
        return ()
    shown = [Evidence("unusual", f"line {line}: {text}", counts=False) for line, text in found[:MOST]]
    if len(found) > MOST:
        shown.append(Evidence("unusual", f"and {len(found) - MOST} lines more", counts=False))
    return tuple(shown)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _oddities(node: ast.AST, imported: set[str]) -> Iterator[tuple[int, str]]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
        if node.module == INNER:
            names = [f"{INNER}.{alias.name}" for alias in node.names if alias.name not in families.__all__]
    for name in names:
        line = node.lineno  # type: ignore[attr-defined]
        if reason := UNUSUAL_MODULES.get(name.partition(".")[0]):
            yield line, f"imports {name}, which {reason}"
        if name.partition(".")[0] == INNER and not name.startswith(PUBLIC):
            yield line, f"imports {name}, a part of the judge"
    if isinstance(node, ast.Assign | ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            root = _root(target)
            if isinstance(target, ast.Attribute) and root in imported:
                yield node.lineno, f"replaces {ast.unparse(target)}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNUSUAL_CALLS:
        yield node.lineno, f"calls {node.func.id}"


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
