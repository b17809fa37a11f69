"""Describe a callable: its import path, the Python function inside, its name, parameters and state."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count, islice, takewhile
from types import FunctionType, MethodType
from typing import Any

from cuprof.core.errors import UsageError
from cuprof.families import fingerprint
from cuprof.families.kernel import Kernel
from cuprof.families.origin import PREFIX
from cuprof.families.validation import COMPILED

FILLERS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def find_import(value: Any) -> tuple[str, str] | None:
    """Return (module, name) from which a value can be imported, or None where it was typed into a main module."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or getattr(value, "name", None)
    short = name.rpartition(".")[2] if isinstance(name, str) else ""
    if not short.isidentifier():
        return None
    places: list[Any] = [getattr(value, "__module__", None), type(value).__module__.partition(".")[0]]
    if not isinstance(value, FunctionType | type):  # an object does not say where it was made
        public = (module for module in list(sys.modules) if not module.startswith("_"))
        places += sorted(public, key=lambda module: (module.count("."), module))
    for place in map(str, filter(None, places)):
        is_private = place == "__main__" or place.startswith(PREFIX)
        if not is_private and place in sys.modules and vars(sys.modules[place]).get(short) is value:
            return place, short
    return None


def unwrap(value: Any) -> FunctionType | None:
    """Return the Python function inside a decorated one: a Numba dispatcher, a Triton kernel, a wrapper."""
    if find_module(value) is not None and not isinstance(value, MethodType):
        return None
    return fingerprint.unwrap(value, ("py_func", "fn", "__wrapped__", "__func__"))


def find_module(value: Any) -> Any:
    """Return the PyTorch module that a callable is, or is a method of; None for any other one."""
    torch = sys.modules.get("torch")
    held = value.__self__ if isinstance(value, MethodType) else value
    return held if torch is not None and isinstance(held, torch.nn.Module) else None


def list_state(value: Any) -> dict[str, Any]:
    """Return the parameters and buffers that a callable works with, by name."""
    module = find_module(value)
    return {} if module is None else {**dict(module.named_parameters()), **dict(module.named_buffers())}


def origin_of(function: Any) -> str:
    """Return "numpy.add" of a function, "module.name" of any other callable."""
    if isinstance(function, Kernel):
        return origin_of(function.function)
    if isinstance(function, MethodType) or find_module(function) is None:
        name = getattr(function, "__name__", "") or getattr(function, "name", "") or type(function).__name__
        module = getattr(function, "__module__", None) or type(getattr(function, "__self__", function)).__module__
    else:
        kind = type(getattr(function, "_orig_mod", function))
        name, module = kind.__name__, kind.__module__
    is_own = module == "__main__" or module.startswith(PREFIX)
    return str(name) if is_own else f"{module.partition('.')[0].lstrip('_')}.{name}"


def with_names(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return the implementations, each with a name of its own: one that is taken gets its module's before it.

    Raises:
        UsageError: two are given one name.
    """
    named: dict[str, Kernel] = {}
    given = [one.function for one in kernels if one.function is not None]
    for one in kernels:
        origin = re.sub(r"\W+", "_", one.symbol).strip("_") or origin_of(one.function)
        origin = re.sub(r"[^A-Za-z0-9_.<>]+", "_", origin).strip("_")
        short = origin.rpartition(".")[2].replace("<lambda>", "function") or "function"
        inner = "__wrapped__" if hasattr(one.function, "lower") else "py_func"  # of `jax.jit`, of Numba
        is_beside = any(getattr(one.function, inner, None) is each for each in given)
        if is_beside or hasattr(one.function, "_torchdynamo_orig_callable") or hasattr(one.function, "_orig_mod"):
            short, origin = short + COMPILED, origin + COMPILED
        numbered = [short, origin, *(f"{short}_{number}" for number in islice(count(2), len(kernels)))]
        free = (each for each in ([one.name] if one.name else numbered) if each not in named and "<" not in each)
        name = next(free, "")
        if not name:
            raise UsageError(f"two implementations are named {one.name!r}; give one another name")
        named[name] = replace(one, name=name)
    return tuple(named.values())


def arrange(
    function: Any, names: Collection[str], tunables: Collection[str] = ()
) -> tuple[list[str], list[str]] | None:
    """Return which of these arguments a function takes by position, and which by keyword, by its parameters' names.

    None where these do not have such names: it then takes all arguments by position.
    """
    parameters = _parameters(function) or []
    own = [one for one in parameters if one.name not in tunables]
    needed = [one.name for one in own if one.default is one.empty and one.kind not in FILLERS]
    if any(one.kind in (*FILLERS, one.POSITIONAL_ONLY) for one in own) or not needed or not {*needed} <= {*names}:
        return None
    # By position as far as that goes: `cupy.fuse` takes no keywords.
    first = [*takewhile(lambda one: one in own and one.name in names and one.kind != one.KEYWORD_ONLY, parameters)]
    return [one.name for one in first], [one.name for one in own if one not in first and one.name in names]


def list_parameters(function: Any) -> list[str] | None:
    """Return the names of the parameters that have no default; None where they cannot be told, or are any number."""
    parameters = _parameters(function)
    if parameters is None or any(one.kind in FILLERS for one in parameters):
        return None
    return [one.name for one in parameters if one.default is one.empty]


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of a callable, of a PyTorch module those of its forward(); None for some builtins."""
    module = find_module(function)
    called = function if module is not function else getattr(module, "_orig_mod", module).forward
    try:
        return [*inspect.signature(called).parameters.values()]
    except (TypeError, ValueError):
        return None
