"""The content of a live Python object: its value as text, its name, its closure and attributes."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

LONGEST_VALUE = 4000
"""Constants up to this many characters enter as they are; a longer one enters by its SHA-256."""


def full_name(value: Any) -> str:
    """Return the full name of an object in its module, or an empty text."""
    if isinstance(value, ModuleType):
        return value.__name__
    named = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    places = [(getattr(value, "__module__", None) or type(value).__module__, named)]
    if not hasattr(value, "__dict__"):  # torch.float32 has no name but this
        places.append(repr(value).rpartition(".")[::2])
    for module, name in places:
        found = sys.modules.get(str(module))
        for part in str(name).split("."):
            found = getattr(found, part, None)
        if found is value and module != "__main__":
            return f"{module}.{name}"
    return ""


def file_of(kind: type) -> str | None:
    """Return the file of a class; one that was typed into a notebook is found by its functions."""
    codes = (one.__code__.co_filename for one in vars(kind).values() if isinstance(one, FunctionType))
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or next(codes, None)


def plain_text(value: Any) -> str | None:
    """Return a text of plain data that is the same in every process, or None where the value is anything else."""
    try:
        text = _plain(value)
    except RecursionError:  # it holds itself
        return None
    if text is not None and len(text) > LONGEST_VALUE:
        return f"{type(value).__name__} of SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    return text


def _plain(value: Any) -> str | None:
    if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes, range, re.Pattern):
        return repr(value)
    if type(value) in (tuple, list, set, frozenset):
        texts = [text for one in value if (text := _plain(one)) is not None]
        if len(texts) < len(value):
            return None
        return f"{type(value).__name__}({', '.join(sorted(texts) if isinstance(value, set | frozenset) else texts)})"
    if type(value) is dict:
        keys, values = _plain(list(value)), _plain(list(value.values()))
        return None if keys is None or values is None else f"dict({keys}, {values})"
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.dtype):
        return f"dtype({value.descr if value.names else (value.name, value.str)})"
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        if value.dtype.hasobject:
            return _plain(value.tolist())
        return f"array({_plain(value.dtype)}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
    return None


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object itself has."""
    slots = {name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())}
    return {**slots, **getattr(value, "__dict__", {})}


def unwrap(value: Any, names: Sequence[str] = ("py_func", "__wrapped__", "__func__")) -> FunctionType | None:
    """Return the Python function inside a Numba dispatcher, a static method or a `functools.wraps` wrapper, or None.

    Args:
        names: attributes that may hold what is inside.
    """
    for _ in range(32):
        inner = None
        for name in names:
            with suppress(Exception):  # an object may raise whatever it likes where it is asked for an attribute
                inner = getattr(value, name, None) if inner is None else inner
        if inner is None or isinstance(value, type):
            break
        value = inner
    return value if isinstance(value, FunctionType) else None


def closure_of(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function uses from enclosing scopes, by name."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # a name that its scope has not bound yet
            values[name] = cell.cell_contents
    return values


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """Return the defaults of a function's parameters, by name."""
    names, defaults = function.__code__.co_varnames[: function.__code__.co_argcount], function.__defaults__ or ()
    return {**dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)), **(function.__kwdefaults__ or {})}
