"""Keep sweeps, trials, timings and counters in SQLite or PostgreSQL.

`Store` is loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.store.store import Store

__all__ = ["Store"]


def __getattr__(name: str) -> Any:
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cuprof.store.store import Store

    return Store
