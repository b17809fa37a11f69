"""Connections to an SQLite file without SQLAlchemy, which takes longer to load than a usual query takes."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import quote

from cuprof.core.interrupts import is_requested
from cuprof.store.schema import REVISION, VERSION_TABLE

OPTIONS = re.compile(r"\?\w+=")
"""Where options of a URL begin, which SQLite takes none of; a path may have any other "?"."""
BUSY_SECONDS = 30.0
"""How long a statement waits for another process's lock before it gives up."""
MOST_VALUE_BYTES = 128 << 20
"""Of a value or a row that is read: a view of others may make one of a gigabyte, and Python several of each."""
PLAIN_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
"""Tables that hold their rows themselves: a view's or a virtual table's may have no end."""
STEPS_BETWEEN_LOOKS = 10_000
"""Instructions of SQLite's virtual machine, under a millisecond of them, between looks at clock and signals."""


def was_stopped(error: BaseException | None) -> bool:
    """Return whether SQLite ended a statement because a progress handler wanted it to, or raised."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


def find_current(url: str) -> sqlite3.Connection | None:
    """Return a connection that only reads, or None where `Store.open` has to decide: it upgrades files and explains.

    Args:
        url: SQLAlchemy URL of any database.
    """
    path = Path(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///") or OPTIONS.search(url) or not path.is_file():
        return None
    with suppress(sqlite3.Error, UnicodeDecodeError), ExitStack() as unless_current:
        connection = unless_current.enter_context(closing(connect_file(path, read_only=True)))
        is_plain = (VERSION_TABLE,) in connection.execute(PLAIN_TABLES)
        if is_plain and connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() == (REVISION,):
            unless_current.pop_all()
            return connection
    return None


def connect_file(path: Path, read_only: bool, foreign_keys: bool = True) -> sqlite3.Connection:
    """Connect to an SQLite file, in WAL mode where it may be written to."""
    if path.exists() and not path.is_file():  # SQLite would wait for a FIFO's writer, and hear no signal
        raise sqlite3.OperationalError("unable to open database file")
    target = f"file:{quote(str(path.absolute()))}?mode={'ro' if read_only else 'rwc'}"
    if read_only and not _can_share(path):
        target += "&immutable=1"
    # The driver would begin transactions by itself: too late for a read that decides what is written, and never before
    # DDL. So it stays in autocommit mode, and SQLAlchemy begins.
    connection = sqlite3.connect(target, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    with ExitStack() as on_error:
        on_error.callback(connection.close)
        connection.execute(f"PRAGMA foreign_keys={int(foreign_keys)}")
        if read_only:
            connection.execute("PRAGMA query_only=ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
            # A view that was made by others may have rows without end. Python hears Ctrl-C in the handler; SQLite takes
            # what it raises there for a wish to stop, and nothing more.
            connection.set_progress_handler(is_requested, STEPS_BETWEEN_LOOKS)
        else:
            _enter_wal(connection)
            connection.execute("PRAGMA synchronous=NORMAL")
        on_error.pop_all()
    return connection


def _can_share(path: Path) -> bool:
    # A WAL database is read through its -shm file. Where there is none and none can be made, and no -wal file holds
    # pages, the file is complete by itself.
    wal = path.with_name(path.name + "-wal")
    return os.access(path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size > 0)


def _enter_wal(connection: sqlite3.Connection) -> None:
    # Entering WAL needs the file alone for a moment, and SQLite does not wait when two processes make one file.
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
