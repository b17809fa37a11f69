"""Whether what checks, times and counts is still what it was before foreign code ran in this process."""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import Any

WATCHED = frozenset({"cuprof", "numpy", "time", "statistics", "random", "secrets", "msgspec"})
"""Packages whose functions stand between a variant's execution and what is stored of it."""


class Integrity:
    """Remember the functions, classes and methods of the watched packages, as far as they are loaded."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, str, Any]] = []
        self._code: list[tuple[FunctionType, Any, Any]] = []
        for name, module in list(sys.modules.items()):
            if module is None or name.partition(".")[0] not in WATCHED:
                continue
            for attribute, value in list(vars(module).items()):
                if callable(value):
                    self._known.append((module, attribute, value))
                if name.startswith("cuprof") and inspect.isclass(value) and value.__module__ == name:
                    self._remember_class(value)
                elif isinstance(value, FunctionType) and value.__module__ == name:
                    self._code.append((value, value.__code__, value.__defaults__))

    def mend(self) -> tuple[str, ...]:
        """Put back what has been replaced, and return its names."""
        replaced = []
        for owner, attribute, value in self._known:
            if vars(owner).get(attribute) is not value:
                replaced.append(f"{owner.__name__}.{attribute}")
                setattr(owner, attribute, value)
        for function, code, defaults in self._code:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                replaced.append(f"{function.__module__}.{function.__qualname__}")
                function.__code__, function.__defaults__ = code, defaults
        return tuple(dict.fromkeys(replaced))

    def _remember_class(self, owner: type) -> None:
        for attribute, value in list(vars(owner).items()):
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if callable(value) or isinstance(value, property | classmethod | staticmethod):
                self._known.append((owner, attribute, value))
            if isinstance(function, FunctionType):
                self._code.append((function, function.__code__, function.__defaults__))
