"""Bring a database to the newest revision: the migrations of db/migrations, then the views of db/views.

A new database gets the tables of the newest revision directly, because importing Alembic takes as long as planning a
sweep.

Views hold no data, so no migration mentions them. They are dropped and made again from their files when the revision or
a file has changed, and the ranking is computed again. A file that ends in .DATABASE.sql is for that database only.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection

from cuprof.core.errors import StoreError
from cuprof.core.project import bundled
from cuprof.store import ranking
from cuprof.store.connection import database_file, describe_damage, disposing, make_engine, show
from cuprof.store.schema import REVISION, VERSION_TABLE, describe_views, list_views
from cuprof.store.sqlite_file import PLAIN_TABLES
from cuprof.store.tables import METADATA

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x6375_7072_6F66
"""The advisory lock of migrations on PostgreSQL: "cuprof" in ASCII."""
_EARLIER = ("finding", "sample")
"""Tables of earlier revisions, which migrations read."""


def has_own_views(connection: Connection) -> bool:
    """Return whether the views are those of this cuprof."""
    return _read_views(connection) == describe_views(list_views(connection.dialect.name))


def check_revision(connection: Connection, url: URL) -> str | None:
    """Return the database's revision, None for an empty database.

    Raises:
        StoreError: a newer cuprof wrote it, or another program, or its revision is none, or in no plain table.
    """
    revision = None
    if sa.inspect(connection).has_table(VERSION_TABLE):
        check_tables(connection, url, [VERSION_TABLE])
        revision = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
    if revision is None:
        # On a server cuprof may share a database with other programs; a file belongs to one.
        if database_file(url) is not None and connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
            raise StoreError(f"database {show(url)} was not made by cuprof; name another file")
        return None
    if not re.fullmatch("[0-9]{4}", str(revision)):
        raise StoreError(describe_damage(url, f"its revision is {revision!r:.60}"))
    if str(revision) > REVISION:
        raise StoreError(
            f"database {show(url)} was written by a newer cuprof (revision {revision}, this one knows {REVISION}); "
            "upgrade cuprof"
        )
    return str(revision)


def check_tables(connection: Connection, url: URL, names: Iterable[str], *, may_lack: bool = False) -> None:
    """Refuse views, virtual tables and computed columns where tables of an SQLite file should be.

    Args:
        may_lack: the file needs not have them all.
    """
    raw = connection.connection.driver_connection
    if not isinstance(raw, sqlite3.Connection):
        return
    if may_lack:
        names = {name.lower() for (name,) in raw.execute("SELECT name FROM sqlite_master")} & {*names}
    plain = {name for (name,) in raw.execute(PLAIN_TABLES)}
    for name in sorted(names):
        if name not in plain or any(column[6] for column in raw.execute(f"PRAGMA table_xinfo({name})")):
            raise StoreError(f"database {show(url)} is damaged or was not made by cuprof: {name} is not a plain table")


def upgrade(url: URL) -> None:
    """Make or upgrade the database in one transaction; of several processes one does it and the others wait.

    Raises:
        StoreError: a newer cuprof wrote the database, or another program.
    """
    # SQLite changes a table by copying it and dropping the old one. With foreign keys on, the drop would delete the
    # rows of every table that refers to it, so they are checked at the end instead.
    with disposing(make_engine(url, foreign_keys=False)) as engine, engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        revision = check_revision(connection, url)
        if revision is None:
            _make_tables(connection)
        elif revision != REVISION:
            _refuse_triggers(connection, url)
            check_tables(connection, url, METADATA.tables, may_lack=True)
            drop_views(connection)  # one of them has the name of an earlier table
            check_tables(connection, url, _EARLIER, may_lack=True)
            run_migrations(connection, url)
        make_views(connection)
        ranking.refresh(connection)
        if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
            raise StoreError(f"database {show(url)} was left as it was: its rows do not fit together")


def _refuse_triggers(connection: Connection, url: URL) -> None:
    """Refuse a file with triggers, which a migration would run: one of others may never end."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalar()
        if found is not None:
            raise StoreError(
                f"database {show(url)} was changed by hand: drop its trigger {found!r:.60}, then try again"
            )


def _make_tables(connection: Connection) -> None:
    METADATA.create_all(connection, checkfirst=False)  # another program's table of the same name is an error
    version = sa.Table(
        VERSION_TABLE,
        sa.MetaData(),
        sa.Column("version_num", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
    )
    version.create(connection, checkfirst=True)  # downgrading through all migrations leaves it there, empty
    connection.execute(sa.insert(version).values(version_num=REVISION))


def run_migrations(connection: Connection, url: URL, revision: str = "head") -> None:
    """Run the migrations up to a revision.

    Raises:
        StoreError: the database has a revision that no migration has.
    """
    from alembic import command
    from alembic.util.exc import CommandError

    configuration = make_configuration()
    configuration.attributes["connection"] = connection
    try:
        command.upgrade(configuration, revision)
    except CommandError as error:
        raise StoreError(f"database {show(url)} cannot be upgraded: {error}") from error


def make_configuration() -> Config:
    """Return Alembic's configuration with the bundled migrations."""
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(bundled("db") / "migrations").replace("%", "%%"))
    return configuration


def drop_views(connection: Connection) -> None:
    """Drop every view that cuprof has made in this database."""
    for name in reversed(json.loads(_read_views(connection) or '{"names": []}')["names"]):
        connection.execute(sa.text(f'DROP VIEW IF EXISTS "{name}"'))


def make_views(connection: Connection) -> None:
    """Make the views again from db/views, and store their names and hash."""
    drop_views(connection)
    views = list_views(connection.dialect.name)
    for statement in views.values():
        connection.exec_driver_sql(statement)
    connection.execute(sa.text("DELETE FROM property WHERE name = 'views'"))
    told = {"value": describe_views(views)}
    connection.execute(sa.text("INSERT INTO property (name, value) VALUES ('views', :value)"), told)


def _read_views(connection: Connection) -> str:
    if not sa.inspect(connection).has_table("property"):
        return ""
    return connection.execute(sa.text("SELECT value FROM property WHERE name = 'views'")).scalar() or ""
