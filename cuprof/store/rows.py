"""Insert-or-update, lookups of many values and records as rows, alike on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store.types import plain

Row = dict[str, Any]
AT_ONCE = 5000
"""Rows of a large result that are in memory at a time."""


def upsert(
    connection: Connection, table: sa.Table, rows: Sequence[Row], *, key: Sequence[str], update: Sequence[str]
) -> None:
    """Insert rows; where one with the same key is there, set its `update` columns and leave the others as they are."""
    if not rows:
        return
    # In one order everywhere, so that two processes never wait for each other's rows crosswise.
    rows = sorted({itemgetter(*key)(row): row for row in rows}.values(), key=itemgetter(*key))
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")  # PostgreSQL's takes 50 ms
    statement: Any = dialect.insert(table)
    if update:
        changes = {name: statement.excluded[name] for name in update}
        statement = statement.on_conflict_do_update(index_elements=list(key), set_=changes)
    else:
        statement = statement.on_conflict_do_nothing(index_elements=list(key))
    if connection.dialect.name == "postgresql":  # which then takes a thousand rows in one statement
        statement = statement.returning(sa.literal(1))
    connection.execute(statement, rows)


def save(
    connection: Connection, table: sa.Table, rows: Sequence[Row], *, key: Sequence[str], update: Sequence[str] = ()
) -> dict[Any, int]:
    """Store rows as `upsert` does and return their ids by the value of `key`, a tuple of several.

    Rows that are stored already and would not change are left alone: a write would make others wait for this
    transaction's end.

    Args:
        key: the last of these columns is the one that rows are looked up by.
    """
    mark, size = itemgetter(*key), len(key)
    query = sa.select(*(table.c[name] for name in (*key, "id", *update)))

    def find(wanted: Sequence[Row]) -> dict[Any, Sequence[Any]]:
        chosen = among(connection, table.c[key[-1]], dict.fromkeys(row[key[-1]] for row in wanted))
        rows = connection.execute(query.where(chosen)).all()
        return {row[:size] if size > 1 else row[0]: row[size:] for row in rows}

    found = find(rows)

    def is_stored(row: Row) -> bool:
        return mark(row) in found and found[mark(row)][1:] == tuple(plain(row[name]) for name in update)

    if changed := [row for row in rows if not is_stored(row)]:
        upsert(connection, table, changed, key=key, update=update)
        found |= find(changed)
    return {each: found[each][0] for each in map(mark, rows)}


def among(connection: Connection, column: Any, values: Iterable[Any]) -> sa.ColumnElement[bool]:
    """Return whether a column has one of many values, which are sent as one parameter."""
    return is_among(connection.dialect.name, column, sa.bindparam(None, list(values), type_=list_of(column)))


def is_among(dialect: str, column: Any, values: sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
    """Return whether a column has one of the values of a parameter of the type `list_of(column)`."""
    if dialect == "postgresql":
        return column == sa.any_(values)  # type: ignore[no-any-return]
    return column.in_(sa.select(sa.func.json_each(values).table_valued("value").c.value))  # type: ignore[no-any-return]


def list_of(column: Any) -> Any:
    """Return the type of a parameter that has many values of a column."""
    return sa.ARRAY(column.type).with_variant(sa.JSON(), "sqlite")


def columns_of(table: sa.Table, record: object, **others: Any) -> Row:
    """Return the columns of a table that a record has under the same names, with others added or replaced."""
    known = {name: getattr(record, name, table) for name in table.c.keys()}  # noqa: SIM118 - a table has no keys()
    return {name: value for name, value in known.items() if value is not table} | others


def insert_row(connection: Connection, table: sa.Table, row: Mapping[str, Any]) -> int:
    """Insert one row and return its key."""
    key: Any = connection.execute(sa.insert(table), dict(row)).inserted_primary_key
    return int(key[0])
