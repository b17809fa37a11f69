"""Read-only queries: SQL, or the name of a query in db/queries, of a view or of a table; and the rows they give."""

from __future__ import annotations

import json
import math
import pickle
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from itertools import chain, islice, takewhile
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.core.errors import StoreError, UnknownNameError, UsageError
from cuprof.core.project import find_project
from cuprof.store.schema import list_views
from cuprof.store.sqlite_file import STEPS_BETWEEN_LOOKS, find_current, was_stopped

if TYPE_CHECKING:
    import pandas as pd

READING = ("select", "with", "values", "explain", "table", "show", "pragma")
_DECLARED = ("select", "values", "table")
"""What a server sends row by row; a WITH that writes is refused as such only elsewhere."""
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list", "user_version"}
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_COMMENT = re.compile(r"--[^\n]*(\n|$)|/\*.*?\*/", re.DOTALL)
AT_ONCE = 5000
"""Rows that are held at a time."""
MOST_ROWS = 500_000
"""Rows of a table, which is held as a whole to find its widths: a join without a condition may have any number."""
MOST_BYTES = 1 << 28
"""Of the rows of a batch or of a table: a view that others have made may have any number of large ones."""
_LONGEST_MS = 2**31 - 1
_BINARY = (16, 20, 21, 23, 25, 114, 701, 1043, 1114, 1184, 1700, 3802)
"""PostgreSQL's types that read the same in its binary format, and numbers in less time; of others some do not: bool,
bigint, smallint, integer, text, json, double precision, varchar, timestamp, timestamptz, numeric, jsonb."""
Batch = Sequence[Sequence[Any]]
Fetch = Callable[[], Batch]
"""Return the next rows, none at the end."""
_PLACE = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")
_RELATIONS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
    "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()",
}


@dataclass(frozen=True)
class Rows:
    """The rows of a query under their columns' names; batches are read once, as the database finds them."""

    names: Sequence[str]
    batches: Iterable[Batch]

    def columns(self) -> list[Sequence[Any]]:
        """Return every column as a whole; raise `UsageError` where there is more than a table takes."""
        rows, held = list[Sequence[Any]](), 0
        for batch in self.batches:
            rows += batch
            held += _count_bytes(batch)
            if len(rows) > MOST_ROWS or held > MOST_BYTES:
                most = f"{MOST_ROWS:,} rows, and there are" if held <= MOST_BYTES else "256 MB, and there is"
                raise UsageError(f"a table takes {most} more; add LIMIT 100, or --format csv")
        return plain_columns(self.names, rows)


@contextmanager
def read(
    url: str, sql_or_name: str, params: Mapping[str, Any] | None = None, *, time_limit_s: float = math.inf
) -> Iterator[Rows]:
    """Yield the rows of a query, which are read while the context is open.

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
    give_up = time.monotonic() + time_limit_s
    with ExitStack() as opened:
        connection = _connect(opened, url)
        is_file = isinstance(connection, sqlite3.Connection)
        with _translated(connection, url, give_up):
            sql = _find_sql(connection, sql_or_name.strip()).strip().rstrip(";")
            if is_file:
                connection.set_progress_handler(lambda: time.monotonic() > give_up, STEPS_BETWEEN_LOOKS)
                # Beside mode=ro: VACUUM INTO and ATTACH would write other files.
                connection.set_authorizer(_authorize)
                cursor = connection.execute(sql, dict(params or {}))
                described, fetch = cursor.description, lambda: _fetch_bounded(cursor)
            else:
                described, fetch = _execute_on_server(opened, connection, sql, params, time_limit_s)
        yield Rows([column[0] for column in described or ()], _batches(connection, url, fetch, give_up))


def query(
    url: str, sql_or_name: str, params: Mapping[str, Any] | None = None, *, time_limit_s: float = math.inf
) -> pd.DataFrame:
    """Return the rows of a query as a pandas frame; see `read`."""
    with read(url, sql_or_name, params, time_limit_s=time_limit_s) as rows:
        return make_frame(rows.names, list(chain.from_iterable(rows.batches)))


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
    found = {name: _describe(statement) for name, statement in list_views().items()}
    folders = reversed(find_project().folders("db"))
    named = {path.stem: path for folder in folders for path in folder.glob("queries/*.sql")}
    found |= {name: _describe(path.read_text(encoding="utf-8")) for name, path in sorted(named.items())}
    return found


def _describe(sql: str) -> str:
    """Return the first sentence of the comment that a statement begins with."""
    lines = takewhile(lambda line: line.startswith("--"), sql.splitlines())
    text = " ".join(line.removeprefix("--").strip() for line in lines)
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _find_sql(connection: Any, text: str) -> str:
    if not text:
        raise UsageError(f"nothing to query; write a SELECT or one of {', '.join(list_queries())}")
    if not _NAME.fullmatch(text):
        if (verb := _first_word(text)) in READING:
            return text
        if (name := re.split(r"\W", text, maxsplit=1)[0]) in list_queries():
            raise UsageError(f"{name} is a query of its own; give one name, or a SELECT statement in quotes")
        if near := get_close_matches(verb, READING, n=1, cutoff=0.8):
            raise UsageError(f"{verb.upper()} is not SQL: did you mean {near[0].upper()}?")
        what = verb.upper() or repr(text[:20])
        raise UsageError(f"a query only reads; {what} is refused and nothing was changed")
    for folder in find_project().folders("db"):
        if (file := folder / "queries" / f"{text}.sql").is_file():
            return file.read_text(encoding="utf-8")
    dialect = "sqlite" if isinstance(connection, sqlite3.Connection) else "postgresql"
    relations = {row[0] for row in connection.execute(_RELATIONS[dialect])}
    if text in relations:
        return f'SELECT * FROM "{text}"'
    if text in (views := list_views(dialect)):  # this view came after the database's last write
        return views[text].partition(f"CREATE VIEW {text} AS")[2]
    raise UnknownNameError("query", text, {*list_queries(), *relations})


def _first_word(sql: str) -> str:
    """Return a statement's first word in lower case, empty where it begins with none."""
    first = _COMMENT.sub(" ", sql).split(None, 1)
    word = re.match(r"[A-Za-z]*", first[0].lstrip("(") if first else "")
    return word.group().lower() if word else ""


def _connect(opened: ExitStack, url: str) -> Any:
    """Return the driver's connection to a database, which reads only.

    Raises:
        StoreError: there is none, or it cannot be brought up to date.
    """
    if (file := find_current(url)) is not None:
        opened.callback(file.close)
        return file
    from cuprof.store.store import Store

    store = opened.enter_context(Store.open(url, create=False, read_only=True))
    with store.snapshot():
        connection = store.engine.raw_connection()
    opened.callback(connection.close)
    return connection.driver_connection


def _execute_on_server(
    opened: ExitStack, connection: Any, sql: str, params: Mapping[str, Any] | None, time_limit_s: float
) -> tuple[Sequence[Any] | None, Fetch]:
    """Return what the columns are, and what fetches rows."""
    from psycopg import capabilities

    if math.isfinite(time_limit_s):  # of each statement that follows; a moment where nothing is left
        limit_ms = max(1, min(round(time_limit_s * 1000), _LONGEST_MS))
        connection.execute("SELECT set_config('statement_timeout', %s, true)", [str(limit_ms)])
    if params:
        sql = _PLACE.sub(r"%(\1)s", sql.replace("%", "%%"))
    values = dict(params) if params else None
    # Declared or prepared it is a single statement: "COMMIT; DELETE …" cannot leave the read-only transaction.
    if _first_word(sql) not in _DECLARED:
        cursor = connection.execute(sql, values, prepare=True)
        return cursor.description, (lambda: cursor.fetchmany(AT_ONCE)) if cursor.description else list
    connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")  # whose rows come in any order
    with closing(connection.cursor("rows")) as declared:
        described = declared.execute(sql, values).description
    is_binary = all(column.type_code in _BINARY for column in described)
    together = AT_ONCE if capabilities.has_stream_chunked() else 1
    # The server goes on while rows are written here, which takes half of the time of asking it for more.
    rows = connection.cursor().stream(sql, values, binary=is_binary, size=together)
    opened.callback(rows.close)
    return described, lambda: list(islice(rows, AT_ONCE))


def _fetch_bounded(cursor: sqlite3.Cursor) -> Batch:
    rows, held = list[Sequence[Any]](), 0
    for row in islice(cursor, AT_ONCE):
        rows.append(row)
        held += _count_bytes(row)
        if held > MOST_BYTES:
            break
    return rows


def _count_bytes(values: Sequence[Any]) -> int:
    return len(pickle.dumps(values, pickle.HIGHEST_PROTOCOL))  # a tenth of the time of asking each value for its size


def _batches(connection: Any, url: str, fetch: Fetch, give_up: float) -> Iterator[Batch]:
    while True:
        with _translated(connection, url, give_up):
            rows = fetch()
        if not rows:
            return
        if time.monotonic() > give_up:  # SQLite looks at the clock between instructions, of which a large row takes few
            raise _explain(TimeoutError("interrupted"), url)
        yield rows


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


@contextmanager
def _translated(connection: Any, url: str, give_up: float) -> Iterator[None]:
    try:
        yield
    except (connection.Error, UnicodeDecodeError) as error:
        # Python's own complaints, as of text that is not UTF-8, have no such code.
        if was_stopped(error) and time.monotonic() <= give_up:
            raise KeyboardInterrupt from None
        raise _explain(error, url) from error


def _explain(error: Exception, url: str) -> Exception:
    text = re.sub(r" LINE \d+: .*", "", " ".join(str(error).split()))
    low = text.lower()
    if low == "interrupted" or "statement timeout" in low:
        return UsageError(
            "the query took longer than its time limit and was stopped; ask for less, or set --time-limit"
        )
    if any(word in low for word in ("readonly", "read-only", "not authorized", "prohibited")):
        return UsageError(f"a query only reads; this one was refused ({text}) and nothing was changed")
    if "multiple commands" in low or "one statement at a time" in low:
        return UsageError("a query is one statement; nothing was done")
    if "binding" in low or "parameter missing" in low:
        return UsageError(f"the query's :name places need values ({text.partition(' (')[0]})")
    if any(word in low for word in ("malformed", "not a database", "locked", "disk i/o", "connection")):
        from cuprof.store.connection import parse_url, show

        return StoreError(f"database {show(parse_url(url))}: {text}")
    return UsageError(f"the database does not understand the query: {text}")


def plain_columns(names: Sequence[str], rows: Batch) -> list[Sequence[Any]]:
    """Return the columns of some rows.

    JSON becomes text, exact decimals floats, what is in a column that ends in `_at` a time in UTC; a number without a
    value is None, and where a column holds a float all of its numbers are floats.
    """
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(names)
    return [_plain_column(name, values) for name, values in zip(names, columns, strict=True)]


def make_frame(names: Sequence[str], rows: Batch) -> pd.DataFrame:
    """Return the rows under their column names.

    Whole numbers with gaps stay whole (dtype Int64), JSON is text, columns that end in `_at` are UTC timestamps,
    exact decimals become floats.
    """
    import pandas as pd

    made = [pd.Series(values, dtype=_find_dtype(values)) for values in plain_columns(names, rows)]
    frame = pd.DataFrame(dict(enumerate(made)))  # numbered, since a query may give two columns one name
    frame.columns = pd.Index(list(names), dtype=object)
    return frame


def _plain_column(name: str, values: Sequence[Any]) -> Sequence[Any]:
    kinds = _kinds(values)
    if kinds & {Decimal, dict, list}:
        values = [_plain(value) for value in values]
        kinds = _kinds(values)
    if float in kinds and kinds <= {int, float} and (int in kinds or any(map(ne, values, values))):
        return [None if value is None or value != value else float(value) for value in values]
    if kinds and kinds <= {str, datetime} and name.endswith("_at"):
        with suppress(ValueError):
            known = {value: value and _in_utc(value) for value in set(values)}  # of a run's timings it is one
            return [known[value] for value in values]
    return values


def _kinds(values: Sequence[Any]) -> set[type]:
    return set(map(type, values)) - {type(None)}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _in_utc(value: str | datetime) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _find_dtype(values: Sequence[Any]) -> Any:
    """Return the type of a series of these values, None for what pandas takes for them."""
    kinds = _kinds(values)
    if kinds == {int} and None in values:
        return "Int64"
    if kinds <= {str}:
        return object
    return {datetime: "datetime64[us, UTC]", float: "float64"}.get(*kinds) if len(kinds) == 1 else None
