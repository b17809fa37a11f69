"""Where a sweep's results go while its database's server cannot be reached, until a later one hands them in."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cuprof.core.errors import EmptyStoreError, StoreError, UnreachableStoreError
from cuprof.core.project import Project
from cuprof.engine.merging import merge_source
from cuprof.store import Store
from cuprof.store.connection import parse_url, show
from cuprof.store.processes import this_host
from cuprof.store.source import open_source


@contextmanager
def open_spool(project: Project, url: str) -> Iterator[str]:
    """Yield the URL of a file for this process alone; it is handed in only after the block, or the process, has ended.

    Args:
        url: the database that the results are for.

    Raises:
        StoreError: the file's folder cannot be written.
    """
    folder = _find_folder(project, url)
    file = folder / f"{this_host()}-{os.getpid()}.sqlite"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_lock(file))
        except OSError as error:
            raise StoreError(
                f"results cannot be kept in {folder} either: {error.strerror}; name another place with store.url"
            ) from None
        yield f"sqlite:///{file}"


def hand_in(store: Store, project: Project) -> Iterator[str]:
    """Merge the spool files for this database whose processes have ended, and yield what became of each."""
    for file in sorted(_find_folder(project, store.url).glob("*.sqlite")):
        try:
            with _lock(file):
                if not file.exists():  # another process was faster
                    continue
                runs, notes = 0, list[str]()
                # Without tables, its process was killed before it could make them.
                with suppress(EmptyStoreError), open_source(f"sqlite:///{file}") as source:
                    merged = merge_source(source, store, project.artifacts)
                    runs, notes = merged.added["run"], merged.notes
                for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
                    file.with_name(name).unlink(missing_ok=True)
                yield f"runs handed in that were measured while the database was away: {runs}"
                yield from notes
        except BlockingIOError:
            continue  # its process goes on
        except UnreachableStoreError:
            raise
        except (StoreError, OSError) as error:
            yield f"{file} could not be handed in: {error}"


def _find_folder(project: Project, url: str) -> Path:
    return project.jobs / "spool" / hashlib.sha256(show(parse_url(url)).encode()).hexdigest()[:12]


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold a file's lock, which ends with this process at the latest; raise BlockingIOError where it is held."""
    lock = file.with_suffix(".lock")
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        if not file.exists():
            lock.unlink(missing_ok=True)
    finally:
        os.close(handle)
