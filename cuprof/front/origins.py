"""Where a callable comes from: the module that has it, the Python function inside of it."""

from __future__ import annotations

import builtins
import sys
from types import FunctionType
from typing import Any


def find_import(value: Any) -> tuple[str, str] | None:
    """Return (module, name) from which a value can be imported, or None where it was typed into a main module."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or getattr(value, "name", None)
    if not isinstance(name, str) or not name.rpartition(".")[2].isidentifier():
        return None
    short = name.rpartition(".")[2]
    homes = [getattr(value, "__module__", None), type(value).__module__.partition(".")[0]]
    loaded = sorted((key for key in sys.modules if not key.startswith("_")), key=lambda key: (key.count("."), key))
    for module in (*filter(None, homes), *(loaded if not isinstance(value, FunctionType | type) else ())):
        if (
            module != "__main__"
            and vars(sys.modules.get(module, builtins)).get(short) is value
            and module in sys.modules
        ):
            return module, short
    return None


def unwrap(value: Any) -> FunctionType | None:
    """Return the Python function inside a decorated one: a Numba dispatcher, a Triton kernel, a wrapper."""
    for _ in range(32):
        if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
            return value
        inner = next(
            (getattr(value, key) for key in ("py_func", "fn", "__wrapped__", "__func__") if hasattr(value, key)), None
        )
        if inner is None:
            return value if isinstance(value, FunctionType) else None
        value = inner
    return None
