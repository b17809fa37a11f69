"""Insert-or-update and lookups in chunks, alike on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Measure, State
from cuprof.store.columns import Whole, canonical, to_json
from cuprof.store.connection import AS_SENT
from cuprof.store.models import Base

CHUNK = 5000
"""Values of one IN list; SQLite takes 32,766 parameters a statement, PostgreSQL 65,535."""

Item = TypeVar("Item")


def upsert(
    connection: Connection,
    model: type[Base],
    rows: Sequence[dict[str, Any]],
    *,
    key: Sequence[str],
    update: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> None:
    """Insert rows; where one with the same key is there, set its `update` columns and leave the others as they are.

    `keep` columns are set only where they are NULL.
    """
    if not rows:
        return
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")  # PostgreSQL's takes 50 ms
    statement = dialect.insert(model)
    columns = model.__table__.c
    # In one order everywhere, so that two processes never wait for each other's rows crosswise.
    rows = sorted({itemgetter(*key)(row): row for row in rows}.values(), key=itemgetter(*key))
    if together := connection.dialect.name == "postgresql" and len(rows) > 1:  # it takes long for a statement a row
        values_of = {name: [row[name] for row in rows] for name in rows[0]}
        statement = statement.from_select(
            list(values_of), sa.select(*[_column(columns[name].type, values) for name, values in values_of.items()])
        )
    if update or keep:
        values: dict[str, Any] = {name: statement.excluded[name] for name in update}
        values |= {name: sa.func.coalesce(columns[name], statement.excluded[name]) for name in keep}
        statement = statement.on_conflict_do_update(index_elements=list(key), set_=values)
    else:
        statement = statement.on_conflict_do_nothing(index_elements=list(key))
    connection.execute(statement, None if together else rows)


def _column(kind: Any, values: list[Any]) -> sa.ColumnElement[Any]:
    """Return values as a column of PostgreSQL's; one that all rows share is sent once."""
    if all(value == values[0] for value in values):
        return sa.cast(sa.literal(values[0], kind), kind)
    return sa.func.unnest(_array(kind, values))


def _array(kind: Any, values: list[Any]) -> sa.ColumnElement[Any]:
    """Return values as an array of PostgreSQL's: numbers and words as one text, as the driver quotes value by value."""
    from sqlalchemy.dialects import postgresql  # which takes 50 ms, and SQLite's users nothing

    array = postgresql.ARRAY(kind)
    if (text := _join(kind, values)) is None:
        return sa.literal(values, array)
    return sa.cast(sa.func.string_to_array(text, ",", ""), array)


def _join(kind: Any, values: list[Any]) -> str | None:
    """Return the values between commas, nothing for None; None where they would not come apart again as they were."""
    types = set(map(type, values)) - {type(None)}
    if len(values) < 2:  # none and one of nothing look the same
        return None
    if isinstance(kind, (sa.Integer, Whole)) and types <= {int}:
        return ",".join(["" if value is None else str(value) for value in values])
    if type(kind) is sa.String and types <= {str} and "" not in values:
        text = ",".join(["" if value is None else value for value in values])
        return text if text.count(",") == len(values) - 1 else None
    return None


def columns_of(model: type[Base], record: object, **others: Any) -> dict[str, Any]:
    """Return the columns of a table that a record has under the same names, with others beside or in place of them."""
    known = {column.name: getattr(record, column.name, model) for column in model.__table__.c}
    return {name: value for name, value in known.items() if value is not model} | others


def insert_row(connection: Connection, model: type[Base], row: Mapping[str, Any]) -> int:
    """Insert one row and return its key."""
    key = connection.execute(_insert(model), dict(row)).inserted_primary_key
    assert key is not None  # single-row inserts always have one
    return int(key[0])


@cache
def _insert(model: type[Base]) -> sa.Insert:
    return sa.insert(model)


def among(connection: Connection, column: Any, values: Iterable[Any]) -> sa.ColumnElement[bool]:
    """Return whether a column has one of many values, all in one parameter: a hundred thousand of them take long."""
    if connection.dialect.name == "postgresql":
        return column == sa.any_(_array(column.type, list(values)))  # type: ignore[no-any-return]
    listed = sa.func.json_each(to_json(list(values))).table_valued("value")
    return column.in_(sa.select(listed.c.value))  # type: ignore[no-any-return]


as_state, as_measure = cache(State), cache(Measure)
"""What words of plain rows stand for."""


def plain_rows(connection: Connection, query: sa.Select[*tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows as the driver has them: for very many, whose values need no conversion, in half of the time."""
    with connection.execute(query, execution_options={AS_SENT: True}) as result:
        assert result.cursor is not None  # of a query that returns rows
        return list(result.cursor.fetchall())


def chunks(items: Sequence[Item], size: int = CHUNK) -> Iterator[Sequence[Item]]:
    """Yield the items in pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of plain data, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
