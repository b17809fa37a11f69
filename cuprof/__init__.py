"""cuprof: check, time, profile and compare GPU kernel variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.reading.queries import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:
    if name == "load":  # on first use: importing cuprof must not import a database
        from cuprof.reading.queries import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
