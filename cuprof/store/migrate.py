"""Bring a database to the newest revision: the migrations of db/migrations, then the views of db/views.

A new database gets the tables of the newest revision at once, without Alembic, which takes as long to import as a sweep
takes to be planned.

Views hold no data, so no migration mentions them: they are dropped and made again from their files whenever the
revision or one of the files has changed, and so is what they rank by. A file that ends in .DATABASE.sql is one kind's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection

from cuprof.core.errors import StoreError
from cuprof.core.project import bundled
from cuprof.store import ranking
from cuprof.store.connection import database_file, make_engine, show
from cuprof.store.models import REVISION, Base
from cuprof.store.schema import VERSION_TABLE, describe_views, list_views

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x6375_7072_6F66  # "cuprof": the advisory lock that two migrating processes meet at on PostgreSQL


def read_revision(connection: Connection) -> str | None:
    """Return the revision that the database says it has, None for one that cuprof has not made."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def is_current(connection: Connection) -> bool:
    """Return whether tables and views are those of this cuprof."""
    if read_revision(connection) != REVISION:
        return False
    return _read_views(connection) == describe_views(list_views(connection.dialect.name))


def check_revision(connection: Connection, url: URL) -> str | None:
    """Return the database's revision, None for an empty database.

    Raises:
        StoreError: a newer cuprof wrote it, or something other than cuprof.
    """
    revision = read_revision(connection)
    if revision is None:
        # On a server cuprof may share a database with others; a file is one program's.
        if database_file(url) is not None and connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
            raise StoreError(f"database {show(url)} was not made by cuprof; name another file with --store")
        return None
    if revision > REVISION or not revision.isdigit():
        raise StoreError(
            f"database {show(url)} was written by a newer cuprof (revision {revision}, this one knows {REVISION}); "
            "upgrade cuprof"
        )
    return revision


def upgrade(url: URL) -> None:
    """Make or upgrade the database in one transaction; of several processes the first does it and the others wait.

    Raises:
        StoreError: a newer cuprof wrote the database, or something other than cuprof.
    """
    # SQLite changes a table by copying it and dropping the old one, and with foreign keys on the drop would take the
    # rows of every table that refers to it along. They are checked at the end instead.
    engine = make_engine(url, foreign_keys=False)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            revision = check_revision(connection, url)
            if revision is None:
                _make_tables(connection)
            elif revision != REVISION:
                drop_views(connection)
                _run_migrations(connection, url)
            make_views(connection)
            ranking.refresh(connection)
            if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                raise StoreError(f"database {show(url)} was left as it was: its rows do not fit together")
    finally:
        engine.dispose()


def _make_tables(connection: Connection) -> None:
    """Make what all migrations come to, in a database that has none of it."""
    import cuprof.store.counter_models  # noqa: F401  (its tables belong to the same metadata)

    Base.metadata.create_all(connection, checkfirst=False)  # another program's table of the same name is an error
    made = sa.Table(
        VERSION_TABLE,
        sa.MetaData(),
        sa.Column("version_num", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
    )
    made.create(connection, checkfirst=True)  # whoever takes all migrations back leaves it there, empty
    connection.execute(sa.insert(made).values(version_num=REVISION))


def _run_migrations(connection: Connection, url: URL, revision: str = "head") -> None:
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
    configuration.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    return configuration


def drop_views(connection: Connection) -> None:
    """Drop every view that cuprof has made in this database."""
    for name in reversed(json.loads(_read_views(connection) or '{"names": []}')["names"]):
        connection.execute(sa.text(f'DROP VIEW IF EXISTS "{name}"'))


def make_views(connection: Connection) -> None:
    """Make the views anew from db/views, and note which they are."""
    drop_views(connection)
    views = list_views(connection.dialect.name)
    for view in views:
        connection.exec_driver_sql(view.statement)
    value = describe_views(views)
    connection.execute(sa.text("DELETE FROM property WHERE name = 'views'"))
    connection.execute(sa.text("INSERT INTO property (name, value) VALUES ('views', :value)"), {"value": value})


def _migrations() -> Path:
    return bundled("db") / "migrations"


def _read_views(connection: Connection) -> str:
    if not sa.inspect(connection).has_table("property"):
        return ""
    return connection.execute(sa.text("SELECT value FROM property WHERE name = 'views'")).scalar() or ""
