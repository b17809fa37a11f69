"""Engines for SQLite and PostgreSQL, and errors of the database in one line a person can act on."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Engine, make_url

from cuprof.core.errors import MissingDependencyError, StoreError, UnreachableStoreError
from cuprof.core.interrupts import stop_if_deferred
from cuprof.core.text import HIDDEN, hide_passwords
from cuprof.store.columns import to_json
from cuprof.store.drivers import BUSY_SECONDS, connect_file, prepare_server

PIECE_SECONDS = 0.2
"""How long a writer waits before it looks whether it was asked to stop."""
READING = "cuprof_reading"
"""Execution option of a connection that only reads: on SQLite its transactions take no lock that keeps writers off."""
AS_SENT = "cuprof_as_sent"
"""Execution option of a query whose rows are taken as the driver has them: a server sends numbers in binary."""

_AS_JSON = {"json_serializer": to_json, "json_deserializer": msgspec.json.decode}

DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
REFUSALS = {
    "42501": "its owner can grant that, or name another database with --store",
    "42P07": "what is there is not cuprof's; name another database, or a schema: ?options=-csearch_path%3DSCHEMA",
    "42P01": "it is damaged or was changed by hand; restore a copy of it, or name another one with --store",
    "3F000": "make the schema that search_path names, or name another one: ?options=-csearch_path%3DSCHEMA",
    "25006": "it is a server's copy, or is closed to writers; name the server that is written to",
    "53100": "free space on the server's disk, then run the command again",
}
"""What to do about PostgreSQL's errors of these codes: https://www.postgresql.org/docs/current/errcodes-appendix.html."""
AWAY = ("08", "25P03", "53300", "57P0")
"""Codes begin so where a server has ended the connection, or has none to give: it is asked again."""
_BUSY = r"the database system is|sorry, too many clients|too many connections|remaining connection slots"
"""And these are its words when one connects, which come without a code."""
_QUOTING = "write @ : / ? # & % and spaces of a password as %40 %3A %2F %3F %23 %26 %25 %20, or keep it in ~/.pgpass"
REMEDIES = {
    "postgresql": "install it with: pip install 'psycopg[binary]'",
    "mysql": "use sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE",
}


def parse_url(url: str) -> URL:
    """Return the URL with the driver that cuprof uses.

    Raises:
        StoreError: the text is no database URL, or names a database that cuprof does not know.
    """
    scheme, separator, path = url.partition(":///")
    if separator and scheme in ("sqlite", "sqlite+pysqlite"):
        if re.search(r"\?\w+=", path):
            raise StoreError(f"{hide_passwords(url)!r}: an SQLite URL takes no options; write sqlite:///FILE")
        return URL.create("sqlite+pysqlite", database=path)  # taken as it stands: a path may hold "?"
    try:
        parsed = make_url(url)
    except exc.ArgumentError:
        raise StoreError(
            f"{_hide_all(url)!r} is not a database URL; write sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
        ) from None
    except ValueError:  # letters where the port's number should be
        raise StoreError(f"{_hide_all(url)!r}: the port is no number; {_QUOTING}") from None
    backend = "postgresql" if parsed.drivername == "postgres" else parsed.get_backend_name()
    if backend not in DRIVERS:
        raise StoreError(
            f"database {backend!r} is not supported; use sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
        )
    if parsed.password is not None and _is_ambiguous(url):
        raise StoreError(f"{_hide_all(url)!r} can be read in two ways; {_QUOTING}")
    return parsed.set(drivername=f"{backend}+{DRIVERS[backend]}")


def database_file(url: URL) -> Path | None:
    """Return the SQLite file that the URL names, None for a database in memory or on a server."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def same_place(one: str, other: str) -> bool:
    """Return whether two URLs name one database, as far as they tell."""
    urls = parse_url(one), parse_url(other)
    files = [database_file(url) for url in urls]
    if files[0] and files[1]:
        return files[0].resolve() == files[1].resolve()
    return urls[0] == urls[1]


def show(url: URL) -> str:
    """Return the URL for people: an SQLite file's path, else the URL without its passwords."""
    path = database_file(url)
    return str(path) if path else hide_passwords(url.render_as_string(hide_password=True))


def _is_ambiguous(url: str) -> bool:
    """Return whether another part of a URL with a password may be meant for it, or it for one of the options."""
    password, _, place = url.partition("://")[2].partition(":")[2].partition("@")
    return "@" in place.partition("?")[0] or re.search(r"[?&]\w+=", password) is not None


def _hide_all(text: str) -> str:
    """Return what is no URL without anything that may be meant for a password."""
    hidden = hide_passwords(text)
    _, at, host = hidden.rpartition("@")
    return f"{HIDDEN}@{host}" if at and hidden == text else hidden


def make_engine(url: URL, *, read_only: bool = False, foreign_keys: bool = True) -> Engine:
    """Return an engine that connects on first use.

    Args:
        read_only: its connections cannot change anything.
        foreign_keys: whether SQLite checks them; off for migrations alone.

    Raises:
        MissingDependencyError: the driver for PostgreSQL is not installed.
    """
    try:
        if url.get_backend_name() == "sqlite":
            return _make_sqlite(url, read_only, foreign_keys)
        engine = sa.create_engine(url, **_AS_JSON, pool_pre_ping=True)
    except ImportError:
        backend = url.get_backend_name()
        raise MissingDependencyError(f"the driver for {backend} ({DRIVERS[backend]})", REMEDIES[backend]) from None

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        prepare_server(connection, read_only)

    @event.listens_for(engine, "before_cursor_execute")
    def ask(connection: Any, cursor: Any, statement: str, values: Any, context: Any, many: bool) -> None:
        if context is not None and context.execution_options.get(AS_SENT):
            cursor.format = 1  # binary, which is made and read in half of the time

    return engine


def _make_sqlite(url: URL, read_only: bool, foreign_keys: bool) -> Engine:
    path = database_file(url)
    if path is None:
        raise StoreError("a database in memory cannot be shared by cuprof's processes; use sqlite:///FILE")
    connect = partial(connect_file, path, read_only=read_only, foreign_keys=foreign_keys)
    engine = sa.create_engine(url, creator=connect, poolclass=sa.pool.QueuePool, **_AS_JSON)

    # The driver would begin transactions by itself, too late for a read that decides what is written, and never
    # before DDL; so the driver is left in autocommit mode and SQLAlchemy begins.
    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        if read_only or connection.get_execution_options().get(READING):
            connection.exec_driver_sql("BEGIN")
        else:
            _begin_writing(connection)

    return engine


def _begin_writing(connection: sa.Connection) -> None:
    # SQLite waits for other writers without hearing signals, so it waits in short pieces.
    give_up = time.monotonic() + BUSY_SECONDS
    connection.exec_driver_sql(f"PRAGMA busy_timeout={int(PIECE_SECONDS * 1000)}")
    while True:
        stop_if_deferred()
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            break
        except exc.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
    connection.exec_driver_sql(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")


def is_unreachable(error: exc.SQLAlchemyError) -> bool:
    """Return whether a server could not be asked at all, or no longer; whatever else it answered, it can be reached."""
    if not isinstance(error, exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if code := getattr(error.orig, "sqlstate", None):
        return str(code).startswith(AWAY)
    refused = re.search(rf"FATAL: +(?! |{_BUSY})", str(error.orig))
    return isinstance(error, exc.OperationalError) and not refused


@contextmanager
def explained(url: URL) -> Iterator[None]:
    """Turn the database's errors into `StoreError`s of one line."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        kind = UnreachableStoreError if database_file(url) is None and is_unreachable(error) else StoreError
        raise kind(explain(url, error)) from error
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where a name in the schema is no text
        raise StoreError(explain(url, error)) from error


@contextmanager
def checking(url: URL) -> Iterator[None]:
    """Turn what wrong values lead to into a `StoreError`: text that is no JSON, an unknown word, a missing row."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        what = f"a row {error} is missing" if isinstance(error, LookupError) else " ".join(str(error).split())
        raise StoreError(
            f"database {show(url)} is damaged or was changed by hand ({what}); "
            "restore a copy of it, or name another one with --store"
        ) from error


def explain(url: URL, error: Exception) -> str:
    """Return one line: which database, what happened, what to do."""
    cause = getattr(error, "orig", None) or error
    said = getattr(getattr(cause, "diag", None), "message_primary", None)  # without the statement
    text = hide_passwords(" ".join((said or str(cause)).split()))
    where, path = show(url), database_file(url)
    low = text.lower()
    if path is not None:
        if "unable to open database file" in low:
            if path.is_dir():
                return f"database {where} is a folder; name a file with --store"
            if not (folder := path.parent).is_dir():
                return f"database {where}: there is no folder {folder}; make it, or name another place with --store"
            return f"database {where} cannot be opened; check the permissions of the file and of its folder"
        if "readonly" in low:
            return f"database {where} is not writable; change its permissions, or name another place with --store"
        if any(word in low for word in ("not a database", "malformed", "disk image", "file format", "decode")):
            return f"database {where} is damaged or no SQLite database ({text}); move it, or name another with --store"
        if "disk is full" in low or "disk i/o" in low:
            return f"database {where} cannot be written ({text}); free space on that disk, then run the command again"
        if "locked" in low or "busy" in low:
            return (
                f"database {where} has been locked by another process for {BUSY_SECONDS:g} s; "
                "let it end, then run the command again"
            )
    if "lock timeout" in low:
        return f"database {where} has been locked for {BUSY_SECONDS:g} s; let the other command end, then try again"
    if "statement timeout" in low:
        return f"database {where}: {text}; give its role a longer one: ALTER ROLE … SET statement_timeout"
    if isinstance(error, exc.SQLAlchemyError) and path is None and is_unreachable(error):
        return f"database {where} cannot be reached: {text}"
    if remedy := REFUSALS.get(getattr(cause, "sqlstate", None) or ""):
        return f"database {where}: {text}; {remedy}"
    return f"database {where}: {text}"
