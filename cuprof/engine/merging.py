"""Make one database of several: their rows, and the report files that belong to them.

Also of those that a sweep's results go to while its database's server cannot be reached: a later sweep hands them in.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from cuprof.core.errors import EmptyStoreError, StoreError, UnreachableStoreError
from cuprof.core.project import Project
from cuprof.store import tables as t
from cuprof.store.connection import database_file, parse_url, show
from cuprof.store.merge import Merged
from cuprof.store.processes import this_host
from cuprof.store.source import Source, open_source
from cuprof.store.store import Store


def merge_source(source: Source, store: Store, artifacts: Path) -> Merged:
    """Merge a database into an open one, all of it or nothing, with the report files beside it.

    Args:
        artifacts: folder for report files.

    Raises:
        StoreError: it is damaged, or it contradicts this database.
    """
    brought = list[Path]()
    try:
        paths, missing = _bring_reports(source, artifacts, brought)
        merged = store.merge(source, paths)
    except StoreError:  # an interrupt comes after what it let be stored
        for report in brought:
            report.unlink(missing_ok=True)
        raise
    merged.reports, merged.missing = len(brought), missing
    return merged


def _bring_reports(source: Source, artifacts: Path, brought: list[Path]) -> tuple[dict[str, str], int]:
    """Copy the report files that are not here yet, and append them; return where all lie, how many are not found."""
    file = database_file(source.url)
    paths: dict[str, str] = {}
    missing = 0
    for row in (row for rows in source.read(t.artifact) for row in rows):
        path = PurePosixPath(row["path"])
        if path.is_absolute():
            continue  # it was never in that project's folder
        if ".." in path.parts:
            raise StoreError(f"database {source.place} is damaged: report {str(path)!r:.80} lies outside of its folder")
        if not re.fullmatch("[0-9a-f]{64}", row["sha256"]):
            raise StoreError(f"database {source.place} is damaged: {row['sha256']!r:.80} is no SHA-256 of a report")
        kept = artifacts / path
        if kept.is_file() and _hash(kept) != row["sha256"]:
            kept = kept.with_name(f"{row['sha256'][:12]}-{path.name}")
        if not kept.is_file():
            found = file.parent / "artifacts" / path if file else None
            if found is None or not found.is_file():
                missing += 1
                continue
            _copy(found, kept, row["sha256"], (file or found).parent / "artifacts")
            brought.append(kept)
        paths[row["sha256"]] = kept.relative_to(artifacts).as_posix()
    return paths, missing


def _copy(found: Path, kept: Path, sha256: str, folder: Path) -> None:
    """Copy a file that is in that folder and has these contents; it is whole as soon as it has its name."""
    if not found.resolve().is_relative_to(folder.resolve()) or _hash(found) != sha256:
        raise StoreError(f"{found} is not the report that its database names; restore it, or move it away")
    part = kept.with_name(f".{kept.name}.{os.getpid()}.part")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, part)
        part.replace(kept)
    except OSError as error:
        raise StoreError(f"report {found} cannot be copied to {kept}: {error.strerror}") from None
    finally:
        with suppress(OSError):  # there is a file in the folder's place
            part.unlink()


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"report {path} cannot be read: {error.strerror}") from None


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
            with suppress(BlockingIOError), _lock(file):  # of a process that goes on
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
    with lock.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        if not file.exists():
            lock.unlink(missing_ok=True)
