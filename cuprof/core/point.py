"""A point: named coordinates on problem axes or tunables."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

Coordinate = int | float | str | bool


class Point(Mapping[str, Coordinate]):
    """Hold named coordinates, immutable and hashable; `point.n` and `point["n"]` read the same.

    Order of the names is kept for display and ignored by equality and hashing. The coordinates are the instance's own
    dictionary, since families read them very often; a mapping's methods stay what they are where one has their name.
    """

    __slots__ = ("__dict__", "__weakref__", "_hash", "_label")

    def __init__(
        self, values: Mapping[str, Coordinate] | Iterable[tuple[str, Coordinate]] = (), **named: Coordinate
    ) -> None:
        vars(self).update(values, **named)
        object.__setattr__(self, "_hash", None)
        object.__setattr__(self, "_label", None)

    if not TYPE_CHECKING:  # properties come before the instance's own dictionary, functions behind it
        keys, values, items, get = (
            property(operator.attrgetter(f"__dict__.{name}")) for name in ("keys", "values", "items", "get")
        )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name):
            raise AttributeError(f"no coordinate {name!r}; there are {', '.join(self) or 'none'}")

    def __getitem__(self, name: str) -> Coordinate:
        value: Coordinate = vars(self)[name]
        return value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Point is immutable")

    def __reduce__(self) -> tuple[type[Point], tuple[dict[str, Coordinate]]]:
        return Point, (dict(vars(self)),)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __len__(self) -> int:
        return len(vars(self))

    def __hash__(self) -> int:
        if self._hash is None:  # asked for very often
            object.__setattr__(self, "_hash", hash(frozenset(vars(self).items())))
        return self._hash  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if type(other) is Point:
            return self is other or vars(self) == vars(other)
        return isinstance(other, Mapping) and vars(self) == dict(other)

    def __repr__(self) -> str:
        return f"Point({self.label})"

    @property
    def label(self) -> str:
        """Return text for people: powers of two from 2^10 up are written as such ("n=2^24, dtype=float32")."""
        if self._label is None:
            object.__setattr__(self, "_label", ", ".join(map(describe_coordinate, vars(self), vars(self).values())))
        return self._label  # type: ignore[no-any-return]


@lru_cache(maxsize=4096, typed=True)
def describe_coordinate(name: str, value: Coordinate) -> str:
    """Return "n=2^24"; a space of a hundred thousand points has few coordinates, each of them in very many points."""
    return f"{name}={format_coordinate(value)}"


def format_coordinate(value: Coordinate) -> str:
    """Return one coordinate as text, 16777216 as 2^24."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1024 and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return str(value)
