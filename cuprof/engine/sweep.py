"""One sweep from configuration to stored rows."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from threading import Thread
from typing import TYPE_CHECKING

from cuprof.config.model import SweepConfig
from cuprof.core.errors import UnreachableStoreError
from cuprof.core.project import Project
from cuprof.engine.devices import open_executors
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.families import Family

if TYPE_CHECKING:
    from cuprof.engine.recorder import Recorder
    from cuprof.engine.running import SweepResult
    from cuprof.store import Store

OPENINGS, REOPEN_S = 3, 0.5
STORING = ("cuprof.engine.running", "cuprof.engine.spool", "cuprof.store.network")
"""Modules that use the database. Its library takes as long to import as a worker takes to describe its devices."""
SEARCHING = ("cuprof.engine.search", "cuprof.search.surrogate", "scipy.linalg", "scipy.optimize", "scipy.special")
"""Further modules for a search; SciPy is needed only after its first jobs."""


def run_sweep(
    config: SweepConfig,
    project: Project,
    observer: Observer,
    meanwhile: Callable[[], object] | None = None,
    family: Family | None = None,
) -> SweepResult:
    """Check, time and store every trial that is not stored yet.

    Each trial is durable before the next is reported. On an interrupt the sweep is marked, and the same command
    continues it. While the database's server cannot be reached, results go to a file, and the next sweep that reaches
    the server hands them in.

    Args:
        meanwhile: run in a thread during a worker's first job, or else while waiting for the database. It does not run
            if the host is timed, since it would disturb the times.
        family: the configuration's family, if already loaded.

    Raises:
        UsageError: the request cannot be carried out; nothing has been stored.
        StoreError: the database cannot be used.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    url = config.store.url or project.database_url
    before: Recorder | None = None
    names = (*STORING, *SEARCHING) if config.search.name else STORING
    Thread(target=import_ahead, args=names, daemon=True).start()
    with ExitStack() as stack:
        while True:
            with open_executors(config) as executors:
                prepared = prepare(config, project, executors, family=family)
                for executor in executors:
                    executor.open_ahead()
                from cuprof.engine.recorder import Recorder
                from cuprof.engine.running import Run
                from cuprof.engine.spool import hand_in, open_spool
                from cuprof.store.connection import database_file, parse_url

                place = database_file(parse_url(url))
                is_first = place is not None and not place.exists()
                recorder: Recorder | None = None
                try:
                    with _open_store(url) as store:
                        if place is None:
                            for text in hand_in(store, project):
                                observer.note(text)
                        if is_first:
                            observer.note(f"results are stored in {place}")
                        recorder = Recorder(prepared, project, store, executors, observer)
                        result = Run(recorder, project, meanwhile, before).run()
                        for executor in executors:
                            executor.retire_worker()
                        return result
                except UnreachableStoreError as error:
                    observer.note(f"{error}; results are kept in a file until the next sweep that reaches it")
            before = recorder if recorder is not None and recorder.sweep_id else None
            url = stack.enter_context(open_spool(project, url))


def import_ahead(*names: str) -> None:
    """Import modules; in a thread, while something else is waited for."""
    for name in names:
        importlib.import_module(name)


def _open_store(url: str) -> Store:
    """Open the database; a server is asked several times, since one connection may be lost for any reason."""
    from cuprof.store import Store

    for _ in range(OPENINGS - 1):
        with suppress(UnreachableStoreError):
            return Store.open(url)
        time.sleep(REOPEN_S)
    return Store.open(url)
