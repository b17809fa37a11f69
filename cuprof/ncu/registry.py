"""The profilers by name; a further one is a package of its own and a line here."""

from __future__ import annotations

import importlib
from functools import cache

from cuprof.core.errors import UnknownNameError
from cuprof.ncu.contract import Profiler

PROFILERS = {"ncu": "cuprof.ncu.profiler"}
"""Name → the module whose `PROFILER` it is, imported when it is asked for."""


def list_profilers() -> list[Profiler]:
    """Return every profiler."""
    return [get_profiler(name) for name in PROFILERS]


@cache
def get_profiler(name: str) -> Profiler:
    """Return a profiler.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if name not in PROFILERS:
        raise UnknownNameError("profiler", name, PROFILERS)
    profiler: Profiler = importlib.import_module(PROFILERS[name]).PROFILER
    return profiler
