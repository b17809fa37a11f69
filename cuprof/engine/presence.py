"""Show this process's executors in the store while a sweep goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from cuprof.core.errors import StoreError, UnreachableStoreError
from cuprof.engine.executor import Executor
from cuprof.results.progress import count_done, list_at_work
from cuprof.store import Store
from cuprof.store.stations import BEAT_S

LOOK_SHARE = 0.02
"""The most of the time that counting everybody's trials may take: of a million trials it takes a second."""
Share = Callable[[int, int, Sequence[str]], None]


@contextmanager
def present(
    store: Store, executors: Sequence[Executor], sweep_id: int = 0, share: Share | None = None
) -> Iterator[None]:
    """Keep the claims of executors alive from a thread, and give them up at the end of the block.

    Args:
        share: called from the thread, while other processes take part, with how many trials all have done, how many
            there are, and a line on each executor of the others.
    """
    ended = Event()

    def beat() -> None:
        look_at = 0.0
        while not ended.wait(BEAT_S):
            mine = {one.number: one.doing for one in executors if one.number}
            # The store may be back before the claims end. A request to stop is for the main thread, which ends them.
            with suppress(StoreError, KeyboardInterrupt):
                store.beat(mine)
                if share is None or (began := time.monotonic()) < look_at:
                    continue
                with store.snapshot() as connection:
                    others = [line for key, line in list_at_work(connection, sweep_id).items() if key not in mine]
                    if others:
                        share(*count_done(connection, sweep_id), others)
                look_at = began + (time.monotonic() - began) / LOOK_SHARE

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
            store.leave([one.number for one in executors if one.number])
