"""cuprof: check, time, profile and compare GPU kernel variants.

What a `family.py` is written with (`Family`, `Axis`, `Program`, …) is here, too: all of `cuprof.families`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.api import compare, kernel
    from cuprof.families import *  # noqa: F403
    from cuprof.families import Chance, Copy, Fill, Reduced, Tolerance
    from cuprof.interop import define
    from cuprof.results.queries import load

__version__ = "0.1.0"
# Projects that 0.1 made import `cuprof.family` and `cuprof.errors`; both names lead to what they became.
__path__.append(f"{__path__[0]}/families/former")  # noqa: F405
__all__ = ["Chance", "Copy", "Fill", "Reduced", "Tolerance", "__version__", "compare", "define", "kernel", "load"]

_HOMES = {
    "load": "cuprof.results.queries",
    "define": "cuprof.interop",
    **dict.fromkeys(("compare", "kernel"), "cuprof.api"),
}


def __dir__() -> list[str]:
    return [*globals(), *__all__, *import_module("cuprof.families").__all__]


def __getattr__(name: str) -> Any:
    """Import on first use: importing cuprof must import neither a database nor NumPy."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_") and name in (families := import_module("cuprof.families")).__all__:
        return getattr(families, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
