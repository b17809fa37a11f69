"""A database of somebody else's, opened to be read: nothing in it is executed, and nothing of it is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection

from cuprof.core.errors import EmptyStoreError, StoreError
from cuprof.core.interrupts import stop_if_deferred
from cuprof.core.scratch import ScratchFolder
from cuprof.store import migrate
from cuprof.store.backup import check_pages
from cuprof.store.connection import checking, database_file, explained, make_engine, parse_url, show
from cuprof.store.models import REVISION, Base
from cuprof.store.schema import VERSION_TABLE

AT_ONCE = 5000
"""Rows that are in memory at a time."""
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_PRAGMA}


@dataclass(frozen=True)
class Source:
    """One state of a database of this cuprof's revision.

    Args:
        url: where it comes from, also where an older one is read from a copy.
    """

    url: URL
    connection: Connection

    @property
    def place(self) -> str:
        """Return the file's path or the URL without its password."""
        return show(self.url)

    def read(self, model: type[Base]) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows of a table, some at a time.

        Raises:
            StoreError: a value is none that cuprof writes, or the database is damaged.
        """
        columns = model.__table__.c
        select = sa.select(*columns).execution_options(yield_per=AT_ONCE)
        with explained(self.url), checking(self.url):
            for rows in self.connection.execute(select).partitions():
                stop_if_deferred()
                found = [dict(row._mapping) for row in rows]
                for row in found:
                    for column in columns:
                        _check(column, row[column.name])
                yield found


@contextmanager
def open_source(url: str) -> Iterator[Source]:
    """Open a database for one reading of it; one of an older cuprof is read from a copy that has been upgraded.

    Raises:
        StoreError: it is not there, damaged, of a newer cuprof, or not cuprof's.
    """
    parsed = parse_url(url)
    file = database_file(parsed)
    if file is not None and not file.is_file():
        raise StoreError(f"{file} is a folder; name a file in it" if file.is_dir() else f"there is no database {file}")
    with ExitStack() as stack:
        with explained(parsed), checking(parsed):
            connection = stack.enter_context(_reading(parsed))
            revision = migrate.check_revision(connection, parsed)
            if revision is None:
                raise EmptyStoreError(f"database {show(parsed)} is empty")
            if revision == REVISION:
                _check_tables(connection, parsed, sorted(Base.metadata.tables))
            else:
                folder = ScratchFolder()
                stack.callback(folder.cleanup)
                copy = parse_url(f"sqlite:///{folder.path / 'copy.sqlite'}")
                _copy(connection, revision, parsed, copy)
                connection = stack.enter_context(_reading(copy))
        yield Source(parsed, connection)


@contextmanager
def _reading(url: URL) -> Iterator[Connection]:
    """Yield a connection that sees one state of a database; of an SQLite file nothing but plain columns is read."""
    engine = make_engine(url, read_only=True)
    if database_file(url) is None:
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    else:
        event.listen(engine, "connect", lambda raw, _: _distrust(raw, url))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _distrust(raw: sqlite3.Connection, url: URL) -> None:
    """Follow https://sqlite.org/security.html, and refuse whatever a schema would compute when it is read."""

    def authorize(action: int, table: str | None, column: str | None, schema: str | None, within: str | None) -> int:
        return sqlite3.SQLITE_OK if action in ALLOWED and within is None else sqlite3.SQLITE_DENY

    raw.execute("PRAGMA trusted_schema=OFF")
    raw.execute("PRAGMA cell_size_check=ON")
    check_pages(raw, show(url))
    raw.set_authorizer(authorize)


def _check_tables(connection: Connection, url: URL, names: list[str]) -> None:
    """Refuse views, virtual tables and columns that are computed in the place of tables."""
    if connection.dialect.name != "sqlite":
        return
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    plain = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name = ?"
    for name in names:
        with closing(raw.execute(plain, (name,))) as found:
            is_plain = found.fetchone() is not None
        if not is_plain or any(column[6] for column in raw.execute(f"PRAGMA table_xinfo({name})")):
            raise StoreError(f"database {show(url)} is damaged or was not made by cuprof: {name} is no plain table")


def _copy(connection: Connection, revision: str, url: URL, copy: URL) -> None:
    """Write the rows of an older database into a new one of its revision, whose schema is cuprof's own."""
    engine = make_engine(copy, foreign_keys=False)
    try:
        with engine.begin() as target:
            migrate._run_migrations(target, copy, revision)
            metadata = sa.MetaData()
            metadata.reflect(target)
            tables = [table for table in metadata.sorted_tables if table.name not in (VERSION_TABLE, "property")]
            _check_tables(connection, url, [table.name for table in tables])
            for table in tables:
                for column in table.c:
                    column.type = (
                        sa.JSON(none_as_null=True) if isinstance(column.type, sa.JSON) else column.type.as_generic()
                    )
                for rows in connection.execute(sa.select(*table.c).execution_options(yield_per=AT_ONCE)).partitions():
                    target.execute(table.insert(), [dict(row._mapping) for row in rows])
            if target.exec_driver_sql("PRAGMA foreign_key_check").first():
                raise StoreError(f"database {show(url)} is damaged: its rows do not fit together")
    finally:
        engine.dispose()
    migrate.upgrade(copy)


def _check(column: sa.ColumnElement[Any], value: Any) -> None:
    """Raise ValueError for a value that the column's type would let through on SQLite, and no other database takes."""
    kind = column.type
    if value is None:
        is_sound = bool(column.nullable)
    elif isinstance(kind, sa.String):
        is_sound = isinstance(value, str) and len(value) <= (kind.length or len(value))
    elif isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger):
        is_sound = isinstance(value, int) and abs(value) < 2**31
    else:
        is_sound = not isinstance(kind, sa.Integer) or isinstance(value, int)
    if not is_sound:
        raise ValueError(f"{value!r:.40} is in {column.table.name}.{column.name}")
