"""Column types with one meaning on every database: what a value becomes on its way in, and what comes back.

- Text: NUL characters and lone surrogates, which PostgreSQL or UTF-8 refuse, become visible escapes.
- Real: a NaN becomes NULL (SQLite does so by itself); infinities are stored as IEEE infinities.
- Json: strict JSON. Non-finite numbers become the strings "NaN", "Infinity", "-Infinity".
- UtcTime: seconds since the epoch in Python, a UTC timestamp in the database, to the microsecond.

SQLite keeps any value in any column; one of another kind than the column's raises ValueError when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

Processor = Callable[[Any], Any]

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A 64-bit key; SQLite numbers rows by itself only where the column is declared INTEGER."""


def clean_text(text: str) -> str:
    """Return the text in a form that every database stores."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


class Text(TypeDecorator[str]):
    """Store text of any length."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean_text(str(value))

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return _text


class Real(TypeDecorator[float]):
    """Store a double precision number, NaN as NULL."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        if value is None:
            return None
        value = float(value)
        return None if value != value else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return _real


class Whole(TypeDecorator[int]):
    """Store a whole number of 64 bits."""

    impl = sa.BigInteger
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return _whole


class Json(TypeDecorator[Any]):
    """Store plain data as strict JSON text, keys in the order given.

    Args:
        kind: what the data is, dict or list.
    """

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else plain(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return value if value is None else _of_kind(value, self.kind)


class UtcTime(TypeDecorator[float]):
    """Store seconds since the epoch as a timestamp in UTC; 0.0 stands for unknown and becomes NULL."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> datetime | None:
        if not value:
            return None
        moment = datetime.fromtimestamp(value, UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> float | None:
        if value is None:
            return None
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def plain(value: Any) -> Any:
    """Return the value as dicts, lists, strings, finite numbers, booleans and None.

    Unknown kinds of objects become their text, so that a record is never lost for a detail.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _name_of(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        if _NUMBERS.issuperset(map(type, value)) and all(map(math.isfinite, value)):
            return list(value)  # samples, of which there are very many
        return [plain(entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(entry) for entry in value), key=str)
    if isinstance(value, PurePath):
        return clean_text(str(value))
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return plain(value.tolist())
    return clean_text(str(value))


_NUMBERS = frozenset({int, float})


def to_json(value: Any) -> str:
    """Return plain data as one line of strict JSON."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(", ", ": "))


def canonical(value: Any) -> str:
    """Return JSON text that is equal for equal data, whatever the order of its keys."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


# One call a value, not SQLAlchemy's three: a sweep is read with a million of them.
def _text(value: Any) -> Any:
    return value if value is None or type(value) is str else _of_kind(value, str)


def _real(value: Any) -> Any:
    return value if value is None or type(value) is float else float(_of_kind(value, (float, int)))


def _whole(value: Any) -> Any:
    return value if value is None or type(value) is int else _of_kind(value, int)


def _of_kind(value: Any, kind: type[Any] | tuple[type[Any], ...]) -> Any:
    if isinstance(value, kind):
        return value
    raise ValueError(f"{value!r:.40} is in a column for another kind of value")


def _name_of(value: float) -> str:
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
