"""Where a callable comes from: the module that has it, the Python function inside, what it is called and takes."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

from cuprof.api.kernels import Kernel
from cuprof.families.loader import PREFIX


def find_import(value: Any) -> tuple[str, str] | None:
    """Return (module, name) from which a value can be imported, or None where it was typed into a main module."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or getattr(value, "name", None)
    if not isinstance(name, str) or not name.rpartition(".")[2].isidentifier():
        return None
    short = name.rpartition(".")[2]
    homes = [getattr(value, "__module__", None), type(value).__module__.partition(".")[0]]
    loaded = sorted(
        (key for key in list(sys.modules) if not key.startswith("_")), key=lambda key: (key.count("."), key)
    )
    for module in (*filter(None, homes), *(loaded if not isinstance(value, FunctionType | type) else ())):
        if (
            module != "__main__"
            and not module.startswith(PREFIX)
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


def origin_of(function: Any) -> str:
    """Return "numpy.add" of a function, "module.name" of any other callable."""
    if isinstance(function, Kernel):
        return origin_of(function.function)
    name = getattr(function, "__name__", "") or getattr(function, "name", "") or type(function).__name__
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", function)).__module__
    root = module.partition(".")[0].lstrip("_")
    return str(name) if module == "__main__" or module.startswith(PREFIX) else f"{root}.{name}"


def goes_by_name(given: Any, names: Sequence[str], tunables: Iterable[str] = ()) -> bool:
    """Return whether a function has parameters of these names that positions would not give them."""
    try:
        parameters = inspect.signature(given)
        parameters.bind(**dict.fromkeys((*names, *tunables)))
    except (TypeError, ValueError):  # builtins, parameters of other names, or by position alone
        return False
    try:
        placed = parameters.bind(*names, **dict.fromkeys(tunables)).arguments
    except TypeError:
        return True
    return any(placed.get(name, name) != name for name in names)


def list_parameters(given: Any, *, by_name: bool = False) -> list[str] | None:
    """Return the names of the parameters that have no default; None where they cannot be told, or are any number.

    Args:
        by_name: also None where they cannot be given by their names.
    """
    try:
        parameters = inspect.signature(given.function or given if isinstance(given, Kernel) else given).parameters
    except (TypeError, ValueError):  # builtins
        return None
    kinds = {inspect.Parameter.VAR_POSITIONAL.name, inspect.Parameter.VAR_KEYWORD.name}
    kinds |= {inspect.Parameter.POSITIONAL_ONLY.name} if by_name else set()
    if any(one.kind.name in kinds for one in parameters.values()):
        return None
    return [name for name, one in parameters.items() if one.default is inspect.Parameter.empty]
