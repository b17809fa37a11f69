"""Read-only queries: SQL, or the name of a query in db/queries, of a view or of a table."""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError, UnknownNameError, UsageError
from cuprof.project import bundled, find_project
from cuprof.reading.frames import make_frame
from cuprof.store.migrate import list_views
from cuprof.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

READING = ("select", "with", "values", "explain", "table", "show", "pragma")
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list", "user_version"}
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_COMMENT = re.compile(r"--[^\n]*(\n|$)|/\*.*?\*/", re.DOTALL)
STEPS_BETWEEN_LOOKS = 10_000
"""Instructions of SQLite's virtual machine, well under a millisecond of them, between two looks at the clock."""
_LONGEST_MS = 2**31 - 1
_REFUSED = "a query only reads; {} is refused and nothing was changed"


def query(
    url: str, sql_or_name: str, params: Mapping[str, Any] | None = None, *, time_limit_s: float = math.inf
) -> pd.DataFrame:
    """Return the rows of a query.

    The connection cannot write: SQLite is opened with mode=ro and an authorizer that lets only reads pass, PostgreSQL
    in a READ ONLY transaction that takes one statement.

    Args:
        url: SQLAlchemy URL of the database.
        sql_or_name: a SELECT, or one word: a query of db/queries (the project's own first), a view or a table.
        params: values for `:name` places in the SQL.
        time_limit_s: how long the database may work on it.

    Raises:
        UnknownNameError: one word that names nothing; the message has the nearest names.
        UsageError: a statement that would write, that the database does not understand, or that takes too long.
        StoreError: the database cannot be opened or read.
        KeyboardInterrupt: Ctrl-C, which stops the database's work too.
    """
    with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
        sql = _find_sql(connection, sql_or_name.strip())
        driver: Any = connection.dialect.loaded_dbapi
        try:
            return _fetch(connection, sql, params, time_limit_s)
        except (exc.SQLAlchemyError, driver.Error) as error:
            raise _translate(error, store.place) from error


def load(name_or_sql: str, url: str | Path | None = None, **params: Any) -> pd.DataFrame:
    """Return a view, a named query or a SELECT as a pandas frame, for notebooks.

    Args:
        name_or_sql: "best", "timings", "SELECT …"; see `query`.
        url: SQLAlchemy URL, or an SQLite file; None means the database of the project around the current folder.
        **params: values for `:name` places in the SQL.
    """
    if isinstance(url, Path):
        url = f"sqlite:///{url}"
    return query(url or find_project().database_url, name_or_sql, params)


def list_queries() -> dict[str, str]:
    """Return what can be asked for by name: the views, then the queries of db/queries, each with a description."""
    found = {view.name: _describe(view.statement) for view in list_views()}
    named = {path.stem: path for folder in reversed(_folders()) for path in folder.glob("*.sql")}
    found |= {name: _describe(path.read_text(encoding="utf-8")) for name, path in sorted(named.items())}
    return found


def _describe(sql: str) -> str:
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return re.split(r"(?<=\.)\s", " ".join(lines), maxsplit=1)[0]


def _folders() -> list[Path]:
    return [find_project().root / "db" / "queries", bundled("db") / "queries"]


def _find_sql(connection: Connection, text: str) -> str:
    if not text:
        raise UsageError(f"nothing to query; write a SELECT or one of {', '.join(list_queries())}")
    if not _NAME.fullmatch(text):
        first = _COMMENT.sub(" ", text).split(None, 1)
        word = re.match(r"[A-Za-z]*", first[0].lstrip("(") if first else "")
        verb = word.group().lower() if word else ""
        if verb not in READING:
            raise UsageError(_REFUSED.format(verb.upper() or repr(text[:20])))
        return text
    for folder in _folders():
        if (folder / f"{text}.sql").is_file():
            return (folder / f"{text}.sql").read_text(encoding="utf-8")
    inspector = sa.inspect(connection)
    relations = {*inspector.get_view_names(), *inspector.get_table_names()}
    if text in relations:
        return f'SELECT * FROM "{text}"'
    raise UnknownNameError("query", text, {*list_queries(), *relations})


def _fetch(connection: Connection, sql: str, params: Mapping[str, Any] | None, time_limit_s: float) -> pd.DataFrame:
    if connection.dialect.name == "sqlite":
        return _fetch_from_sqlite(connection, sql.strip().rstrip(";"), dict(params or {}), time_limit_s)
    if math.isfinite(time_limit_s):
        limit_ms = max(1, min(round(time_limit_s * 1000), _LONGEST_MS))
        connection.execute(sa.text("SELECT set_config('statement_timeout', :limit, true)"), {"limit": str(limit_ms)})
    if params:
        result = connection.execute(sa.text(sql.strip().rstrip(";")), dict(params))
        return make_frame(list(result.keys()), result.fetchall())
    raw_connection: Any = connection.connection.driver_connection
    with raw_connection.cursor() as cursor:
        # A prepared statement is a single one: "COMMIT; DELETE …" cannot leave the read-only transaction.
        cursor.execute(sql.strip().rstrip(";"), None, prepare=True)
        return make_frame([column.name for column in cursor.description or ()], cursor.fetchall())


def _fetch_from_sqlite(connection: Connection, sql: str, params: dict[str, Any], time_limit_s: float) -> pd.DataFrame:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    give_up = time.monotonic() + time_limit_s
    # Python hears Ctrl-C in the handler; SQLite takes what it raises there for a wish to stop, and nothing more.
    raw.set_progress_handler(lambda: time.monotonic() > give_up, STEPS_BETWEEN_LOOKS)
    # Beside mode=ro: VACUUM INTO and ATTACH would write other files.
    raw.set_authorizer(_authorize)
    try:
        cursor = raw.execute(sql, params)
        return make_frame([column[0] for column in cursor.description or ()], cursor.fetchall())
    except sqlite3.OperationalError as error:
        # Python's own complaints, as of text that is not UTF-8, have no such code.
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT and time.monotonic() <= give_up:
            raise KeyboardInterrupt from None
        raise
    finally:
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _translate(error: Exception, place: str) -> Exception:
    cause = getattr(error, "orig", None) or error
    text = re.sub(r" LINE \d+: .*", "", " ".join(str(cause).split()))
    low = text.lower()
    if low == "interrupted" or "statement timeout" in low:
        return UsageError(
            "the query took longer than its time limit and was stopped; ask for less, or set --time-limit"
        )
    if any(word in low for word in ("readonly", "read-only", "not authorized", "prohibited")):
        return UsageError(f"a query only reads; this one was refused ({text}) and nothing was changed")
    if "multiple commands" in low or "one statement at a time" in low:
        return UsageError("a query is one statement; nothing was done")
    if "binding" in low or "bind parameter" in low:
        return UsageError(f"the query's :name places need values ({text.partition(' (')[0]})")
    if any(word in low for word in ("malformed", "not a database", "locked", "disk i/o", "connection")):
        return StoreError(f"database {place}: {text}")
    return UsageError(f"the database does not understand the query: {text}")
