"""Engines for SQLite and PostgreSQL, and the database's errors as one line with what to do about them."""

from __future__ import annotations

import os
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
from sqlalchemy.engine import URL, Connection, Engine, make_url

from cuprof.core.errors import StoreError, UnreachableStoreError, needing
from cuprof.core.interrupts import is_requested, stop_if_requested
from cuprof.core.project import find_existing
from cuprof.core.text import HIDDEN, hide_passwords
from cuprof.store.sqlite_file import BUSY_SECONDS, OPTIONS, connect_file, was_stopped
from cuprof.store.types import to_json

PIECE_SECONDS = 0.2
"""How long a writer waits before it checks whether it was asked to stop."""
READING = "cuprof_reading"
"""Execution option of the connections of `reading`."""
DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
AWAY = ("08", "25P03", "53300", "57P0")
"""SQLSTATE prefixes of a server that ended the connection or has none to spare: the store tries again."""
_BUSY = r"the database system is|sorry, too many clients|too many connections|remaining connection slots"
"""The same, in the words that a server answers a new connection with: they come without a SQLSTATE."""
_FORMS = "postgresql+psycopg://USER@HOST/DATABASE or sqlite:///FILE"
_QUOTING = "write @ : / ? # & % and spaces of a password as %40 %3A %2F %3F %23 %26 %25 %20, or keep it in ~/.pgpass"


def parse_url(url: str) -> URL:
    """Return the URL with the driver that cuprof uses.

    Raises:
        StoreError: the text is no database URL, or names a database that cuprof does not support.
    """
    scheme, separator, path = url.partition(":///")
    if separator and scheme in ("sqlite", "sqlite+pysqlite"):
        if OPTIONS.search(path):
            raise StoreError(f"{hide_passwords(url)!r}: an SQLite URL takes no options; write sqlite:///FILE")
        return URL.create("sqlite+pysqlite", database=path)  # not parsed further: a path may contain "?"
    wrong_port = _describe_fault(url, f": the port is not a number; {_QUOTING}")
    try:
        parsed = make_url(url)
    except exc.ArgumentError:
        raise StoreError(_describe_fault(url, f" is not a database URL; write {_FORMS}")) from None
    except ValueError:
        raise StoreError(wrong_port) from None
    backend = "postgresql" if parsed.drivername == "postgres" else parsed.get_backend_name()
    if backend not in DRIVERS:
        raise StoreError(f"database {backend!r} is not supported; use {_FORMS}")
    if (parsed.password is not None and _is_ambiguous(url)) or "@" in (parsed.database or ""):
        raise StoreError(_describe_fault(url, f" can be read in two ways; {_QUOTING}"))
    parsed = parsed.set(drivername=f"{backend}+{DRIVERS[backend]}")
    if not all(re.fullmatch(r"\d*(,\d*)*", port) for port in sa.util.to_list(parsed.query.get("port", ""))):
        raise StoreError(wrong_port)
    return parsed


def database_file(url: URL) -> Path | None:
    """Return the SQLite file that the URL names, None for a database in memory or on a server."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def same_place(one: str, other: str) -> bool:
    """Return whether two URLs name the same database, as far as their text shows it."""
    urls = parse_url(one), parse_url(other)
    files = [database_file(url) for url in urls]
    if files[0] and files[1]:
        return os.path.realpath(files[0]) == os.path.realpath(files[1])  # a loop of links raises nothing
    return urls[0] == urls[1]


def show(url: URL) -> str:
    """Return the URL for people: an SQLite file's path, else the URL without its passwords."""
    path = database_file(url)
    return str(path) if path else hide_passwords(url.render_as_string(hide_password=True))


def _is_ambiguous(url: str) -> bool:
    """Return whether part of a URL's password may have been read as its host or options, or the other way round."""
    password, _, place = url.partition("://")[2].partition(":")[2].partition("@")
    return "@" in place.partition("?")[0] or re.search(r"[?&]\w+=", password) is not None


def _describe_fault(url: str, fault: str) -> str:
    """Return what is wrong with a URL, which is left out where hiding its password would take words of ours away."""
    hidden = hide_passwords(url)
    _, at, host = hidden.rpartition("@")
    shown = f"{HIDDEN}@{host}" if at and hidden == url else hidden
    line = f"{shown!r}{fault}"
    return line if hide_passwords(line) == line else f"the given URL{fault}"


def make_engine(url: URL, *, read_only: bool = False, foreign_keys: bool = True) -> Engine:
    """Return an engine that connects on first use.

    Args:
        read_only: its connections cannot change anything.
        foreign_keys: whether SQLite enforces them; only migrations turn that off.

    Raises:
        MissingDependencyError: the driver for PostgreSQL is not installed.
    """
    as_json: dict[str, Any] = {"json_serializer": to_json, "json_deserializer": msgspec.json.decode}
    if url.get_backend_name() == "sqlite":
        path = database_file(url)
        if path is None:
            raise StoreError("a database in memory cannot be shared by cuprof's processes; use sqlite:///FILE")
        connect = partial(connect_file, path, read_only, foreign_keys)
        engine = sa.create_engine(url, creator=connect, poolclass=sa.pool.QueuePool, **as_json)
        event.listen(engine, "begin", partial(_begin, read_only))
        return engine
    with needing("the driver for postgresql (psycopg)", "pip install 'cuprof[postgres]'"):
        engine = sa.create_engine(url, **as_json, pool_pre_ping=True)
    event.listen(engine, "connect", partial(_prepare_server, read_only))
    event.listen(engine, "begin", _set_again)
    return engine


@contextmanager
def disposing(engine: Engine) -> Iterator[Engine]:
    """Yield an engine that is used once; its connections are closed at the end."""
    try:
        yield engine
    finally:
        engine.dispose()


SETTINGS = ("TIME ZONE 'UTC'", "jit = off", f"lock_timeout = {int(BUSY_SECONDS * 1000)}")
"""Compiling a view (jit) takes two seconds, more than it saves."""


def _prepare_server(read_only: bool, connection: Any, record: Any) -> None:
    # In a stricter isolation, a transaction that waited for a lock would not see what changed meanwhile.
    connection.isolation_level = 2  # psycopg.IsolationLevel.READ_COMMITTED
    connection.autocommit = True
    connection.execute("; ".join(f"SET {each}" for each in SETTINGS))
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    if pid != connection.info.backend_pid:  # a pooler (PgBouncer) may give each transaction to another session
        connection.prepare_threshold = None
        record.info["is_pooled"] = True
    connection.autocommit = False
    connection.read_only = read_only


def _set_again(connection: sa.Connection) -> None:
    if connection.info.get("is_pooled"):
        connection.exec_driver_sql("; ".join(f"SET LOCAL {each}" for each in SETTINGS))


def _begin(read_only: bool, connection: sa.Connection) -> None:
    if read_only or connection.get_execution_options().get(READING):
        connection.exec_driver_sql("BEGIN")
        return
    # SQLite hears no signal while it waits for other writers, so it waits in short pieces.
    give_up = time.monotonic() + BUSY_SECONDS
    connection.exec_driver_sql(f"PRAGMA busy_timeout={int(PIECE_SECONDS * 1000)}")
    while True:
        stop_if_requested()
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            break
        except exc.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
    connection.exec_driver_sql(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")


def is_unreachable(error: Exception) -> bool:
    """Return whether a server could not be reached, or no longer; one that answers with an error can be."""
    if not isinstance(error, exc.DBAPIError) or isinstance(error.orig, sqlite3.Error):
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
        if is_requested() and was_stopped(getattr(error, "orig", None)):
            raise KeyboardInterrupt from None
        raise (UnreachableStoreError if is_unreachable(error) else StoreError)(explain(url, error)) from error
    except (sqlite3.Error, UnicodeDecodeError) as error:  # UnicodeDecodeError: a name in the schema is not UTF-8
        raise StoreError(explain(url, error)) from error


@contextmanager
def checking(url: URL) -> Iterator[None]:
    """Turn errors that wrong values cause into a `StoreError`: invalid JSON, an unknown word, a missing row."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        what = f"a row {error} is missing" if isinstance(error, LookupError) else " ".join(str(error).split())
        raise StoreError(describe_damage(url, what)) from error


def describe_damage(url: URL, what: object) -> str:
    """Return the line about a database that holds what no cuprof has written."""
    return f"database {show(url)} is damaged or was changed by hand ({what}); restore a copy of it, or name another one"


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees one state of the database; its errors and wrong values become `StoreError`s.

    On SQLite it takes no lock that keeps writers off.
    """
    with explained(engine.url), checking(engine.url), engine.connect() as connection:
        yield connection.execution_options(**{READING: True})


def explain(url: URL, error: Exception) -> str:
    """Return one line: which database, what happened, what to do."""
    cause = getattr(error, "orig", None) or error
    said = getattr(getattr(cause, "diag", None), "message_primary", None)  # without the statement
    text = hide_passwords(" ".join((said or str(cause)).split()))
    path, low = database_file(url), text.lower()
    where = f"database {show(url)}"
    if isinstance(cause, exc.NoSuchTableError):  # in a migration; its text is the name
        return describe_damage(url, f"there is no table {text}")
    if path is not None:
        if "unable to open database file" in low or path.is_dir():  # reading one is a "disk I/O error"
            return _explain_open(where, path)
        advice = next((advice for words, advice in _FILE_ADVICE.items() if re.search(words, low)), None)
        if advice is None and getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR:  # it lacks what SQL names
            return describe_damage(url, text)
    else:
        advice = next((advice for words, advice in _SERVER_ADVICE.items() if words in low), None)
        if advice is None and is_unreachable(error):
            advice = " cannot be reached: {text}"
        if advice is None and (remedy := REFUSALS.get(getattr(cause, "sqlstate", None) or "")):
            advice = f": {{text}}; {remedy}"
    return where + (advice or ": {text}").format(text=text, seconds=BUSY_SECONDS)


def _explain_open(where: str, path: Path) -> str:
    if path.is_dir():
        return f"{where} is a folder; name a file"
    if not path.parent.is_dir():
        return f"{where}: there is no folder {path.parent}; make it, or name another place"
    return f"{where} cannot be opened; check the permissions of the file and of its folder"


_FILE_ADVICE = {
    "readonly": " is not writable; change its permissions, or name another place",
    "not a database|malformed|disk image|file format|decode": (
        " is damaged or no SQLite database ({text}); move it, or name another one"
    ),
    "disk is full|disk i/o": " cannot be written ({text}); free space on that disk, then run the command again",
    "locked|busy": (" has been locked by another process for {seconds:g} s; let it end, then run the command again"),
}
"""What to say when SQLite's message contains one of these words."""
_SERVER_ADVICE = {
    "lock timeout": " has been locked for {seconds:g} s; let the other command end, then try again",
    "statement timeout": ": {text}; give its role a longer one: ALTER ROLE … SET statement_timeout",
}
REFUSALS = {
    "42501": "its owner can grant that, or name another database with --store",
    "42P07": "what is there is not cuprof's; name another database, or a schema: ?options=-csearch_path%3DSCHEMA",
    "42P01": "it is damaged or was changed by hand; restore a copy of it, or name another one with --store",
    "3F000": "make the schema that search_path names, or name another one: ?options=-csearch_path%3DSCHEMA",
    "25006": "it is a standby, or closed to writers; name the server that accepts writes",
    "53100": "free space on the server's disk, then run the command again",
}
"""What to do about PostgreSQL's errors of these codes: https://www.postgresql.org/docs/current/errcodes-appendix.html."""
NETWORKS = {
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
    "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs",
}  # fmt: skip
"""Types of file systems as Linux names them; those of FUSE are named "fuse.PROGRAM". WAL needs memory that all of its
processes share, and locks that hold: https://sqlite.org/wal.html, https://sqlite.org/faq.html#q5."""
FUSE_NETWORKS = ("ceph", "davfs", "gcsfuse", "gluster", "juicefs", "mfs", "rclone", "s3", "sshfs")


def describe_network(file: Path) -> str:
    """Return a warning where the file is on a network file system, or will be; otherwise the empty text."""
    kind = find_filesystem(file)
    program = kind.removeprefix("fuse.")
    if kind not in NETWORKS and not (program != kind and program.startswith(FUSE_NETWORKS)):
        return ""
    return (
        f"database {file} lies on a network file system ({kind}), where sweeps of several hosts can damage it; keep it "
        "on a local disk or in PostgreSQL by store.url"
    )


def find_filesystem(file: Path) -> str:
    """Return the type of the file system that the file is on, or will be; empty where it is unknown."""
    import psutil

    place = find_existing(file).resolve()
    try:
        mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    except OSError:
        return ""
    return next((mounts[folder] for folder in (place, *place.parents) if folder in mounts), "")
