"""A point: named coordinates on problem axes or tunables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Coordinate = int | float | str | bool


class Point(Mapping[str, Coordinate]):
    """Hold named coordinates, immutable and hashable; `point.n` and `point["n"]` read the same.

    Order of the names is kept for display and ignored by equality and hashing.
    """

    __slots__ = ("_values",)
    _values: dict[str, Coordinate]

    def __init__(self, values: Mapping[str, Coordinate] | None = None, **named: Coordinate) -> None:
        object.__setattr__(self, "_values", {**(values or {}), **named})

    def __getitem__(self, name: str) -> Coordinate:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no coordinate {name!r}; there are {', '.join(self._values) or 'none'}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Point is immutable")

    def __reduce__(self) -> tuple[type[Point], tuple[dict[str, Coordinate]]]:
        return Point, (dict(self._values),)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self._values) == dict(other)

    def __repr__(self) -> str:
        return f"Point({self.label})"

    @property
    def label(self) -> str:
        """Return text for people: powers of two from 2^10 up are written as such ("n=2^24, dtype=float32")."""
        return ", ".join(f"{name}={format_coordinate(value)}" for name, value in self._values.items())


def format_coordinate(value: Coordinate) -> str:
    """Return one coordinate as text, 16777216 as 2^24."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1024 and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return str(value)
