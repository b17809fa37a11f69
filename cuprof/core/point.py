"""A point: named coordinates on problem axes or tunables."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Any

Coordinate = int | float | str | bool
Axes = Mapping[str, tuple[Coordinate, ...]]
"""Axis or tunable → its values, which stand for all their combinations; as settings, arithmetic is still text."""


class Point(Mapping[str, Coordinate]):
    """Hold named coordinates, immutable and hashable; `point.n` and `point["n"]` read the same.

    The order of the names matters to display, not to equality or hashing. A coordinate named like a mapping's method
    (`values`) is read as `point["values"]` only.
    """

    __slots__ = ("__weakref__", "_coordinates")

    _coordinates: dict[str, Coordinate]

    def __init__(
        self, values: Mapping[str, Coordinate] | Iterable[tuple[str, Coordinate]] = (), /, **named: Coordinate
    ) -> None:
        object.__setattr__(self, "_coordinates", dict(values, **named))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._coordinates[name]
        except KeyError:
            raise AttributeError(f"no coordinate {name!r}; there are {', '.join(self) or 'none'}") from None

    def __getitem__(self, name: str) -> Coordinate:
        return self._coordinates[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Point is immutable")

    def __reduce__(self) -> tuple[type[Point], tuple[dict[str, Coordinate]]]:
        return Point, (self._coordinates,)

    def __iter__(self) -> Iterator[str]:
        return iter(self._coordinates)

    def __len__(self) -> int:
        return len(self._coordinates)

    def items(self) -> ItemsView[str, Coordinate]:
        """Return the names with their coordinates, in a fifth of the time that `Mapping` takes."""
        return self._coordinates.items()

    def __hash__(self) -> int:
        return hash(frozenset(self._coordinates.items()))

    def __repr__(self) -> str:
        return f"Point({self.label})"

    @property
    def label(self) -> str:
        """Return text for people: large powers of two are written as such ("n=2^24, dtype=float32")."""
        return ", ".join(f"{name}={format_coordinate(value)}" for name, value in self._coordinates.items())


PLAIN_BELOW = 2**14
"""Write powers of two from here on as such; people know and type the smaller ones as numbers."""


def format_coordinate(value: Coordinate) -> str:
    """Return one coordinate as text, 4096 as it is and 16777216 as 2^24."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= PLAIN_BELOW and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return str(value)
