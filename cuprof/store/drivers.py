"""Connections of the databases' own drivers: SQLAlchemy's engines use SQLite's, and a query alone needs no more.

Importing SQLAlchemy takes longer than most queries.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cuprof.store.schema import VERSION_TABLE, describe_views, list_views, newest_revision

BUSY_SECONDS = 30.0
"""How long a statement waits for another process's lock before it gives up."""

_CURRENT = f"SELECT version_num, value FROM {VERSION_TABLE}, property WHERE name = 'views'"


def connect_current(url: str, *, is_checked: bool = False) -> Any:
    """Return the driver's connection that reads a database of this cuprof's revision and views, else None.

    None is no error: whatever is wrong, `Store.open` mends it or says what it is.

    Args:
        is_checked: `Store.open` has found that it can be read as it is; what is wrong is raised.
    """
    scheme, _, rest = url.partition("://")
    is_file = scheme.startswith("sqlite")
    try:
        connection = connect_file(Path(rest[1:]), read_only=True) if is_file else _connect_server(rest)
    except Exception:  # whatever a driver raises, which may not even be there
        if is_checked:
            raise
        return None
    try:
        views = describe_views(list_views("sqlite" if is_file else "postgresql"))
        if is_checked or connection.execute(_CURRENT).fetchone() == (newest_revision(), views):
            return connection
    except Exception:
        pass
    connection.close()
    return None


def _connect_server(address: str) -> Any:
    import psycopg

    connection = psycopg.connect(f"postgresql://{address}", autocommit=True)
    prepare_server(connection, read_only=True)
    return connection


def prepare_server(connection: Any, read_only: bool) -> None:
    """Set what every connection to PostgreSQL has."""
    connection.autocommit = True
    connection.execute("SET TIME ZONE 'UTC'")
    # Else who waits for a lock does not see what has changed until it has it.
    connection.execute("SET default_transaction_isolation = 'read committed'")
    connection.execute(f"SET lock_timeout = {int(BUSY_SECONDS * 1000)}")
    connection.execute("SET jit = off")  # compiling a view takes two seconds, which its rows do not give back
    connection.autocommit = False
    connection.read_only = read_only


def connect_file(path: Path, *, read_only: bool = False, foreign_keys: bool = True) -> sqlite3.Connection:
    """Connect to an SQLite file, in WAL mode where it may be written to."""
    target = f"file:{quote(str(path.absolute()))}?mode={'ro' if read_only else 'rwc'}"
    if read_only and not _can_share(path):
        target += "&immutable=1"
    connection = sqlite3.connect(target, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA foreign_keys={int(foreign_keys)}")
        if read_only:
            connection.execute("PRAGMA query_only=ON")
        else:
            _enter_wal(connection)
            connection.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _enter_wal(connection: sqlite3.Connection) -> None:
    # Entering WAL needs the file alone for a moment and does not wait by itself when two processes make one file.
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


def _can_share(path: Path) -> bool:
    # A WAL database is read through its -shm file; where neither exists nor can be made, and nothing waits in a -wal
    # file, the file is complete by itself and can be read as it lies.
    wal = path.with_name(path.name + "-wal")
    return os.access(path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size > 0)
