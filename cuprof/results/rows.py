"""The rows of a query, some at a time, with values that are the same whichever database they came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from operator import ne
from typing import Any

Batch = Sequence[Sequence[Any]]


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
    return [plain_column(name, values) for name, values in zip(names, columns, strict=True)]


def is_plain(name: str, kinds: set[type]) -> bool:
    """Return whether a column of this name, whose values are of these types or None, is what `plain_column` returns."""
    return kinds <= {int, bool} or (kinds == {str} and not name.endswith("_at"))


def plain_column(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of one column; see `plain_columns`."""
    kinds = set(map(type, values)) - {type(None)}
    if is_plain(name, kinds):
        return values
    if kinds & {Decimal, dict, list}:
        values = [_plain(value) for value in values]
        kinds = set(map(type, values)) - {type(None)}
    if float in kinds and kinds <= {int, float} and (int in kinds or any(map(ne, values, values))):
        return [None if value is None or value != value else float(value) for value in values]
    if kinds and kinds <= {str, datetime} and name.endswith("_at"):
        try:
            known = {
                value: None if value is None else _in_utc(value) for value in set(values)
            }  # of a run's timings it is one
            return [known[value] for value in values]
        except ValueError:
            pass
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _in_utc(value: str | datetime) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
