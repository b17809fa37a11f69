"""How tricks reach what is not theirs: the objects, functions and memory of the process that measures them.

Everything is found by what it looks like rather than by where it stands, so that a trick survives a renamed module.
A trick that finds nothing says so: a judge that is only out of its reach by accident has not caught it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

STALE = "this trick is out of date"
"""How the message begins when a trick no longer finds what it wants to change."""


def list_objects(*attributes: str) -> list[Any]:
    """Return the live objects of cuprof's classes that have all these attributes of their own.

    Raises:
        LookupError: there is none.
    """
    found = [each for each in _list_own() if all(name in vars(each) for name in attributes)]
    if not found:
        raise LookupError(f"{STALE}: no object with {', '.join(attributes)}")
    return found


def list_mappings(name: str, fits: Callable[[Any], bool]) -> list[dict[str, Any]]:
    """Return the dicts that an object of cuprof's has and that hold a fitting value under this name.

    Raises:
        LookupError: there is none.
    """
    values = [value for each in _list_own() for value in vars(each).values()]
    found = [value for value in values if type(value) is dict and name in value and fits(value[name])]
    if not found:
        raise LookupError(f"{STALE}: no dict with a fitting {name}")
    return found


def find_reference(n: int) -> np.ndarray:
    """Return what the check compares with: float64, n numbers, under the output's name."""

    def fits(value: Any) -> bool:
        return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == (n,)

    found: np.ndarray = list_mappings("z", fits)[0]["z"]
    return found


def list_reached(*attributes: str) -> list[Any]:
    """Return the objects of cuprof's classes with these attributes or methods that the frames of the callers lead to.

    Raises:
        LookupError: there is none.
    """
    found = [each for each in _walk_frames() if all(hasattr(each, name) for name in attributes)]
    if not found:
        raise LookupError(f"{STALE}: no object with {', '.join(attributes)} within reach")
    return found


def _list_own() -> list[Any]:
    """Return cuprof's objects: those that the garbage collector knows of, and those that the callers lead to."""
    known = [each for each in gc.get_objects() if str(type(each).__module__).startswith("cuprof")]
    objects = {id(each): each for each in (*known, *_walk_frames())}
    return [each for each in objects.values() if isinstance(getattr(each, "__dict__", None), dict)]


def _walk_frames() -> list[Any]:
    """Return the objects of cuprof's that the local variables of all callers lead to."""
    left: list[Any] = []
    try:
        raise LookupError  # a traceback holds the frame, and nobody is told that it was asked for
    except LookupError as error:
        frame = error.__traceback__.tb_frame if error.__traceback__ else None
    while frame is not None:
        left += [value for name, value in list(frame.f_locals.items()) if name not in ("left", "found")]
        frame = frame.f_back
    found: dict[int, Any] = {}
    seen: set[int] = set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, list | tuple):
            left += each
        elif isinstance(each, Mapping):
            left += each.values()
        elif str(type(each).__module__).startswith("cuprof") and isinstance(getattr(each, "__dict__", None), dict):
            found[id(each)] = each
            left += vars(each).values()
    return list(found.values())


def replace_functions(fits: Callable[[str, Any], bool], make: Callable[[Any], Any], package: str = "cuprof.") -> None:
    """Replace each function of a package that fits, in every module that has it under some name."""
    made: dict[int, Any] = {}
    for module in [each for name, each in sys.modules.items() if name.startswith(package)]:
        for name, value in list(vars(module).items()):
            if callable(value) and not isinstance(value, type) and fits(name, value):
                setattr(module, name, made.setdefault(id(value), make(value)))
    if not made:
        raise LookupError(f"{STALE}: no function to replace")


def callers() -> Iterator[str]:
    """Yield the names of the functions that are under way, innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]


def write_code(address: int, code: bytes) -> None:
    """Overwrite machine code of this process, which the kernel allows through /proc/self/mem.

    Raises:
        OSError: this system does not allow it.
    """
    with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
        memory.seek(address)
        memory.write(code)
