"""Keep sweeps, trials, timings and counters in SQLite or PostgreSQL.

Names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.store.store import Store
    from cuprof.store.trials import StoredTrial

__all__ = ["Store", "StoredTrial"]

_HOMES = {
    "Store": "store",
    "StoredTrial": "trials",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
