"""cuprof: check, time, profile and compare GPU kernel variants."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.definitions import define
    from cuprof.family import Chance, Copy, Fill, Reduced, Tolerance
    from cuprof.front import compare, kernel
    from cuprof.reading.queries import load

__version__ = "0.1.0"
__all__ = ["Chance", "Copy", "Fill", "Reduced", "Tolerance", "__version__", "compare", "define", "kernel", "load"]

_HOMES = {
    "load": "cuprof.reading.queries",
    "define": "cuprof.definitions",
    **dict.fromkeys(("compare", "kernel"), "cuprof.front"),
    **dict.fromkeys(("Chance", "Copy", "Fill", "Reduced", "Tolerance"), "cuprof.family"),
}


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:
    """Import on first use: importing cuprof must import neither a database nor NumPy."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
