"""Keep Numba's compiled functions for the worker's lifetime.

Variants may define their functions as they prepare themselves. Numba would then compile the same few lines for each
problem, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cuprof.families.syntax import nested_codes

PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
"""Values that Numba compiles in as constants, and that never change."""
NAMED = (ModuleType, type, BuiltinFunctionType, np.ufunc)
"""Values that are identified by their own names."""
FAMILIES = "_cuprof_family"
"""The prefix of the names of a family's own modules."""


class Compilations:
    """Return one compiled function for all functions that are the same.

    Two functions are the same where their code is, and the values that it names: constants, modules, types, functions
    that were compiled here. One that names anything else (an array, a plain function) is compiled each time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def install(self, numba: Any) -> None:
        """Let `numba.njit` and `numba.jit` ask here first."""
        for name in ("njit", "jit"):
            if not hasattr(getattr(numba, name), "__wrapped__"):
                setattr(numba, name, self._asking(getattr(numba, name)))

    def _asking(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compiler)
        def compile_once(*given: Any, **options: Any) -> Any:
            if given and isinstance(given[0], FunctionType):
                return compile_once(*given[1:], **options)(given[0])

            def decorate(function: Any) -> Any:
                try:
                    key = (compiler.__name__, repr(given), repr(sorted(options.items())), *self._identity(function))
                except (ValueError, AttributeError):
                    return compiler(*given, **options)(function)
                if key not in self._known:
                    self._known[key] = compiler(*given, **options)(function)
                return self._known[key]

            return decorate

        return compile_once

    def _identity(self, function: FunctionType) -> Iterator[object]:
        """Yield the values that distinguish functions; raise ValueError if they cannot be distinguished."""
        yield function.__code__
        for code in nested_codes(function.__code__):
            for name in code.co_names:
                if name in function.__globals__:
                    yield name, self._frozen(function.__globals__[name])
        for cell in function.__closure__ or ():
            yield self._frozen(cell.cell_contents)
        yield self._frozen((function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items()))))

    def _frozen(self, value: Any) -> object:
        if isinstance(value, tuple):
            return tuple(self._frozen(each) for each in value)
        if isinstance(value, PLAIN):
            return type(value), repr(value)
        is_familys = isinstance(value, ModuleType) and value.__name__.startswith(FAMILIES)  # others of one name follow
        if not is_familys and (isinstance(value, NAMED) or any(value is known for known in self._known.values())):
            return id(value), value
        raise ValueError(f"nothing is known of {value!r}")
