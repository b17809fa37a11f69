"""A foreign database, opened to be read: nothing in it is executed, and nothing of it is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection

from cuprof.core.errors import EmptyStoreError, StoreError
from cuprof.core.interrupts import stop_if_requested
from cuprof.core.scratch import ScratchFolder
from cuprof.store import migrate
from cuprof.store.backup import check_pages
from cuprof.store.connection import checking, database_file, disposing, explained, make_engine, parse_url, show
from cuprof.store.rows import AT_ONCE
from cuprof.store.schema import REVISION, VERSION_TABLE
from cuprof.store.tables import METADATA

ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_PRAGMA}
FUNCTIONS = ("typeof", "length")


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

    def read(self, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows of a table, some at a time.

        Raises:
            StoreError: a value has another type than its column, or the database is damaged.
        """
        select = sa.select(table).execution_options(yield_per=AT_ONCE)
        with explained(self.url), checking(self.url):
            if self.connection.dialect.name == "sqlite":
                _check_types(self.connection, table)
            for rows in self.connection.execute(select).partitions():
                stop_if_requested()
                yield [row._asdict() for row in rows]


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
                migrate.check_tables(connection, parsed, sorted(METADATA.tables))
            else:
                folder = stack.enter_context(ScratchFolder())
                copy = parse_url(f"sqlite:///{folder}/copy.sqlite")
                _copy(connection, revision, parsed, copy)
                connection = stack.enter_context(_reading(copy))
        yield Source(parsed, connection)


@contextmanager
def _reading(url: URL) -> Iterator[Connection]:
    """Yield a connection that sees one state of a database."""
    engine = make_engine(url, read_only=True)
    if database_file(url) is None:
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    else:
        event.listen(engine, "connect", lambda raw, _: _distrust(raw, url))
    with disposing(engine), engine.connect() as connection:
        yield connection


def _distrust(raw: sqlite3.Connection, url: URL) -> None:
    """Follow https://sqlite.org/security.html, and refuse everything that a schema would compute when it is read."""

    def authorize(action: int, first: str | None, second: str | None, schema: str | None, within: str | None) -> int:
        is_plain = action in ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS)
        return sqlite3.SQLITE_OK if is_plain and within is None else sqlite3.SQLITE_DENY

    raw.execute("PRAGMA trusted_schema=OFF")
    raw.execute("PRAGMA cell_size_check=ON")
    check_pages(raw, show(url))
    raw.set_authorizer(authorize)


def _check_types(connection: Connection, table: sa.Table) -> None:
    """Raise ValueError where a value of an SQLite table is one that no other database would take in its column."""
    faults = [(_is_wrong(column), column.name) for column in table.c]
    wrong = sa.select(sa.case(*faults)).where(sa.or_(*(fault for fault, _ in faults))).limit(1)
    if name := connection.scalar(wrong):
        raise ValueError(f"{table.name}.{name} holds a value of another type")


def _is_wrong(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    kind = column.type.impl_instance if isinstance(column.type, sa.TypeDecorator) else column.type
    if isinstance(kind, (sa.Integer, sa.Boolean)):
        allowed = ["integer"]
    else:
        allowed = ["real", "integer"] if isinstance(kind, sa.Double) else ["text"]
    stored: Any = sa.type_coerce(column, sa.Text)
    wrong: sa.ColumnElement[bool] = sa.func.typeof(stored).not_in([*allowed, *["null"] * bool(column.nullable)])
    if isinstance(kind, sa.String) and kind.length:
        wrong |= sa.func.length(stored) > kind.length
    elif isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger):
        wrong |= sa.not_(sa.type_coerce(column, sa.BigInteger).between(-(2**31), 2**31 - 1))
    return wrong


def _copy(connection: Connection, revision: str, url: URL, copy: URL) -> None:
    """Write the rows of an older database into a new one of its revision, whose schema is cuprof's own."""
    with disposing(make_engine(copy, foreign_keys=False)) as engine, engine.begin() as target:
        migrate.run_migrations(target, url, revision)
        metadata = sa.MetaData()
        metadata.reflect(target)
        tables = [table for table in metadata.sorted_tables if table.name not in (VERSION_TABLE, "property")]
        migrate.check_tables(connection, url, [table.name for table in tables])
        for table in tables:
            for column in table.c:
                is_json = isinstance(column.type, sa.JSON)
                column.type = sa.JSON(none_as_null=True) if is_json else column.type.as_generic()
            for rows in connection.execute(sa.select(table).execution_options(yield_per=AT_ONCE)).partitions():
                target.execute(table.insert(), [row._asdict() for row in rows])
        if target.exec_driver_sql("PRAGMA foreign_key_check").first():
            raise StoreError(f"database {show(url)} is damaged: its rows do not fit together")
    migrate.upgrade(copy)
