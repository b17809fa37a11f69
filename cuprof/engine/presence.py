"""Show this process's executors in the store while a sweep goes on."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Thread

from cuprof.core.errors import StoreError, UnreachableStoreError
from cuprof.engine.executor import Executor
from cuprof.store import Store
from cuprof.store.stations import BEAT_S


class Presence:
    """Keep the claims of executors alive from a thread; use as a context manager, which gives them up at its end."""

    def __init__(self, store: Store, executors: Sequence[Executor]) -> None:
        self._store, self._executors = store, executors
        self._ended = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Presence:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is UnreachableStoreError:
            return  # the claims end by themselves
        self._store.leave([executor.number for executor in self._executors if executor.number is not None])

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            try:
                self._store.beat({one.number: one.doing for one in self._executors if one.number and not one.is_lost})
            except StoreError:
                continue  # the store is away for a moment; what matters is whether it is back before the claims end
