"""Show this process's executors in the store while a sweep goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from cuprof.core.errors import StoreError, UnreachableStoreError
from cuprof.engine.executor import Executor
from cuprof.store import Store
from cuprof.store.stations import BEAT_S


@contextmanager
def present(store: Store, executors: Sequence[Executor]) -> Iterator[None]:
    """Keep the claims of executors alive from a thread, and give them up at the end of the block."""
    ended = Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with suppress(StoreError):  # what matters is whether the store is back before the claims end
                store.beat({one.number: one.doing for one in executors if one.number and not one.is_lost})

    thread, is_reachable = Thread(target=beat, daemon=True), True
    thread.start()
    try:
        yield
    except UnreachableStoreError:
        is_reachable = False  # the claims end by themselves
        raise
    finally:
        ended.set()
        thread.join()
        if is_reachable:
            store.leave([executor.number for executor in executors if executor.number is not None])
