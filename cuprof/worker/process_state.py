"""What a variant leaves changed of its process, put back before the next one runs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_LIBC = ctypes.CDLL(None)


class ProcessState:
    """Remember the process as it is, and put it back."""

    def __init__(self) -> None:
        self._known = [(read(), write) for read, write in PARTS]
        self._profile, self._trace = sys.getprofile(), sys.gettrace()

    def put_back(self) -> None:
        """Undo what has changed since this was made; what cannot be undone stays."""
        for (known, write), (read, _) in zip(self._known, PARTS, strict=True):
            with contextlib.suppress(Exception):  # a folder that has gone, a processor that was taken away
                if not _same(read(), known):
                    write(known)
        sys.setprofile(self._profile)
        sys.settrace(self._trace)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(one.get("state"), dict):  # NumPy's legacy generator
        return one["state"]["pos"] == other["state"]["pos"] and np.array_equal(
            one["state"]["key"], other["state"]["key"]
        )
    return bool(one == other)


def _set_environment(known: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(known)


def _read_rounding() -> int:
    return int(_LIBC.fegetround())


PARTS: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (lambda: dict(os.environ), _set_environment),
    (os.getcwd, os.chdir),
    (lambda: os.sched_getaffinity(0), lambda known: os.sched_setaffinity(0, known)),
    (np.geterr, lambda known: np.seterr(**known)),
    (random.getstate, random.setstate),
    (lambda: np.random.get_state(legacy=False), np.random.set_state),
    (_read_rounding, lambda known: _LIBC.fesetround(known)),
    (sys.getswitchinterval, sys.setswitchinterval),
    (sys.getrecursionlimit, sys.setrecursionlimit),
)
"""How each part is read and written."""
