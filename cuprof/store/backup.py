"""A copy of an SQLite database as it is at one moment, made while others write to it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cuprof.core.errors import StoreError, UsageError
from cuprof.core.interrupts import is_requested
from cuprof.store.connection import database_file, disposing, explained, make_engine, parse_url, show
from cuprof.store.migrate import check_revision
from cuprof.store.sqlite_file import STEPS_BETWEEN_LOOKS, was_stopped

COUNTED = ("sweep", "run")
TARGETS_ERRORS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
PAGES_AT_ONCE = 2000
"""Pages, mostly of 4 KiB, that are copied before Ctrl-C is handled."""


@dataclass(frozen=True)
class Copy:
    """The size and the contents of a finished copy."""

    size_bytes: int
    sweeps: int
    runs: int


def back_up(url: str, file: Path, *, overwrite: bool = False) -> Copy:
    """Copy a database to a file, which is complete as soon as it has its name.

    Others may write meanwhile. The copy has the database's revision, needs no other file beside it, and is checked
    before it gets its name.

    Args:
        overwrite: replace a file of that name.

    Raises:
        UsageError: the file exists or is the database itself, or the database is on a server.
        StoreError: the database cannot be read, is damaged or not cuprof's, or the file cannot be written.
    """
    parsed = parse_url(url)
    source = database_file(parsed)
    if source is None:
        raise UsageError(f"database {show(parsed)} is a server's; copy it with pg_dump --format=custom --file=FILE")
    if not source.is_file():
        raise StoreError(f"there is no database {source}; run a sweep first, or name another with --store")
    if file.exists():
        if file.samefile(source):
            raise UsageError(f"{file} is the database itself; name another file")
        if not overwrite:
            raise UsageError(f"{file} exists; name another file, or replace it with --force")
        if not file.is_file():
            raise UsageError(f"{file} is not a regular file; name another one")
    # one state of the database, from the first SELECT on
    with explained(parsed), disposing(make_engine(parsed, read_only=True)) as engine, engine.begin() as connection:
        if check_revision(connection, parsed) is None:
            raise StoreError(f"database {show(parsed)} is empty; run a sweep first")
        sweeps, runs = (connection.exec_driver_sql(f"SELECT COUNT(*) FROM {name}").scalar() for name in COUNTED)
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        size_bytes = _write(raw, source, file)
    return Copy(size_bytes, sweeps or 0, runs or 0)


def _write(database: sqlite3.Connection, source: Path, file: Path) -> int:
    """Write the copy in a folder beside its place, check it and move it there; return its size in bytes."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.absolute().parent) as folder:
            part = Path(folder) / file.name
            with closing(sqlite3.connect(part, isolation_level=None)) as target:
                # Python handles Ctrl-C when it calls the function.
                database.backup(target, pages=PAGES_AT_ONCE, progress=lambda *_: None)
                target.execute("PRAGMA journal_mode=DELETE")  # WAL needs a folder that its readers can write to
                check_pages(target, str(source))
            shutil.copymode(source, part)
            size_bytes = part.stat().st_size
            part.replace(file)
        return size_bytes
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}; name another file") from None
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in TARGETS_ERRORS:
            raise StoreError(f"{file} cannot be written: {error}; free space there, or name another file") from None
        raise


def check_pages(database: sqlite3.Connection, place: str) -> None:
    """Check all pages of a file. Ctrl-C interrupts the check.

    Raises:
        StoreError: a page is damaged.
    """
    database.set_progress_handler(is_requested, STEPS_BETWEEN_LOOKS)
    try:
        found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if was_stopped(error):
            raise KeyboardInterrupt from None
        raise
    if found != "ok":
        line = " ".join(str(found).split())
        raise StoreError(f"database {place} is damaged ({line}); use an earlier copy")
