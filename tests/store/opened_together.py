"""What the processes of a test do; each imports this file, and the test's own would take it seconds."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier

from cuprof.store.store import Store


def open_together(url: str, gate: Barrier) -> None:
    """Open a database at the moment when all do."""
    gate.wait()
    Store.open(url).close()
