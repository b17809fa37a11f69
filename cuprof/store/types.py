"""Column types with one meaning on SQLite and PostgreSQL, and the plain data that they store.

- Text: NUL characters and lone surrogates, which PostgreSQL and UTF-8 refuse, become visible escapes.
- Real: NaN becomes NULL, as SQLite does by itself; infinities stay IEEE infinities.
- Json: strict JSON. Non-finite numbers become the strings "NaN", "Infinity" and "-Infinity".
- UtcTime: seconds since the epoch in Python, a UTC timestamp to the microsecond in the database.

SQLite keeps any value in any column: `cuprof.store.source` checks a foreign database before it reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A 64-bit key. SQLite numbers rows by itself only where the column is declared INTEGER."""


class Text(TypeDecorator[str]):
    """Store text of any length."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean_text(str(value))


class Real(TypeDecorator[float]):
    """Store a double precision number, NaN as NULL."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None or math.isnan(value) else float(value)


class Json(TypeDecorator[Any]):
    """Store plain data as strict JSON text, keys in the order given.

    Args:
        kind: dict or list; reading anything else raises ValueError.
    """

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else plain(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None or isinstance(value, self.kind):
            return value
        raise ValueError(f"{value!r:.40} is not a JSON {self.kind.__name__}")


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


def clean_text(text: str) -> str:
    """Return the text in a form that every database stores."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any) -> Any:
    """Return the value as dicts, lists, strings, finite numbers, booleans and None.

    Other objects become their text, so that no record is lost for a detail.
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
        return float(value) if math.isfinite(value) else json.dumps(value)  # as Python's own JSON names it
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        if _NUMBERS.issuperset(map(type, value)) and all(map(math.isfinite, value)):
            return list(value)  # samples: long, and plain already
        return [plain(entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(entry) for entry in value), key=str)
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return plain(value.tolist())
    return clean_text(str(value))


_NUMBERS = frozenset({int, float})


def to_json(value: Any) -> str:
    """Return plain data as one line of strict JSON."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(", ", ": "))


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of plain data, 64 hexadecimal digits; the order of keys does not matter."""
    text = json.dumps(plain(value), allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
