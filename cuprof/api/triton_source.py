"""A `@triton.jit` function as the source of a kernel: its text, with all that it uses, as a file by itself."""

from __future__ import annotations

import ast
import sys
from functools import lru_cache
from types import FunctionType
from typing import Any

from cuprof.api.capture import Capture, own_folder
from cuprof.api.origins import find_import, unwrap
from cuprof.api.typed_text import definition_text

TUNING = "autotune"
"""The decorator that chooses among configurations, which is no part of any of them."""


@lru_cache(maxsize=64)
def source_of(function: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a function with all that it uses, a Python file by itself, and further files that count.

    Raises:
        UsageError: it uses what cannot be told in text.
    """
    source = _Source()
    source.express(function, getattr(unwrap(function), "__name__", ""))
    search = [f"import sys\n\nsys.path += {list(source.folders)!r}"] if source.folders else []
    return "\n\n".join([*search, *source.lines]) + "\n", tuple(source.files)


class _Source(Capture):
    """Gather Triton functions; what is the user's own stands here as text, as nobody imports a script to compile."""

    def find_module(self, value: Any) -> tuple[str, str] | None:
        found = find_import(value)
        is_text = found is not None and unwrap(value) is not None and own_folder(sys.modules[found[0]]) is not None
        return None if is_text else found

    def read_text(self, function: FunctionType) -> str:
        tree = ast.parse(definition_text(function))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                node.decorator_list = [one for one in node.decorator_list if not _tunes(one)]
        return ast.unparse(tree)


def _tunes(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == TUNING
