"""cuprof: check, time, profile and compare GPU kernel variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.definitions import define
    from cuprof.family import Chance, Copy, Fill, Reduced, Tolerance
    from cuprof.front import compare, kernel
    from cuprof.reading.queries import load

__version__ = "0.1.0"
__all__ = ["Chance", "Copy", "Fill", "Reduced", "Tolerance", "__version__", "compare", "define", "kernel", "load"]


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:
    """Import on first use: importing cuprof must import neither a database nor NumPy."""
    if name == "load":
        from cuprof.reading.queries import load

        return load
    if name == "define":
        from cuprof.definitions import define

        return define
    if name in ("compare", "kernel"):
        import cuprof.front

        return getattr(cuprof.front, name)
    if name in ("Chance", "Copy", "Fill", "Reduced", "Tolerance"):
        import cuprof.family

        return getattr(cuprof.family, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
