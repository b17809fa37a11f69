"""Keep sweeps, trials, timings and counters in SQLite or PostgreSQL."""

from cuprof.store.store import Store
from cuprof.store.trials import StoredTrial

__all__ = ["Store", "StoredTrial"]
