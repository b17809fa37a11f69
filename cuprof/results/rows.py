"""The rows of a query, some at a time, with values that are the same whichever database they came from; or records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from operator import ne
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    import pandas as pd

Batch = Sequence[Sequence[Any]]
Record = TypeVar("Record")


@dataclass(frozen=True)
class Rows:
    """The rows of a query under their columns' names; batches are read once, as the database finds them."""

    names: Sequence[str]
    batches: Iterable[Batch]

    def columns(self) -> list[Sequence[Any]]:
        """Return every column as a whole."""
        return plain_columns(self.names, list(chain.from_iterable(self.batches)))


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

    made = [_make_series(values) for values in plain_columns(names, rows)]
    frame = pd.DataFrame(dict(enumerate(made)))  # numbered, since a query may give two columns one name
    frame.columns = pd.Index(list(names), dtype=object)
    return frame


def as_record(row: Any, kind: type[Record], **more: Any) -> Record:
    """Return a row as a record whose fields are named as its columns.

    Other columns are left out, types are checked, and where there is no value a field keeps its default.

    Raises:
        ValueError: a value is of another type than its field.
    """
    names = map(str, row._fields)  # SQLAlchemy's names are no plain str
    known = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    return msgspec.convert(known | more, kind, dec_hook=lambda of, value: of(value))


def _plain_column(name: str, values: Sequence[Any]) -> Sequence[Any]:
    kinds = _kinds(values)
    if kinds & {Decimal, dict, list}:
        values = [_plain(value) for value in values]
        kinds = _kinds(values)
    if float in kinds and kinds <= {int, float} and (int in kinds or any(map(ne, values, values))):
        return [None if value is None or value != value else float(value) for value in values]
    if kinds and kinds <= {str, datetime} and name.endswith("_at"):
        try:
            known = {value: value and _in_utc(value) for value in set(values)}  # of a run's timings it is one
            return [known[value] for value in values]
        except ValueError:
            pass
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


def _make_series(values: Sequence[Any]) -> pd.Series[Any]:
    import pandas as pd

    kinds = _kinds(values)
    if kinds == {datetime}:
        return pd.Series(pd.to_datetime(pd.Series(values, dtype=object), utc=True)).astype("datetime64[us, UTC]")
    if kinds == {int} and None in values:
        return pd.Series(values, dtype="Int64")
    if kinds <= {str}:
        return pd.Series(values, dtype=object)
    return pd.Series(values, dtype="float64" if kinds == {float} else None)
