"""Coordinates, names and counts as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cuprof.core.point import format_coordinate
from cuprof.core.text import list_first

PLAIN_BELOW = 2**14
"""Powers of two from here on are written as such; smaller ones are numbers that people know."""


def point_label(point: Mapping[str, Any]) -> str:
    """Return coordinates as text for people: "n=2^24, dtype=float32"."""
    return ", ".join(f"{name}={value_label(value)}" for name, value in point.items())


def value_label(value: Any) -> str:
    """Return a fact's value as text for people, 16777216 as 2^24."""
    if isinstance(value, int) and value < PLAIN_BELOW:
        return str(value)
    return "–" if value is None else format_coordinate(value)


def shorten(text: object, most: int = 60) -> str:
    """Return a name for a sentence or a label, without its middle when it is longer than `most` characters."""
    name = str(text)
    tail = (most - 1) // 3
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def list_names(names: Iterable[object], most: int = 6) -> str:
    """Return names for a sentence, shortened: "a, b" or "a, b and 3 more"."""
    return list_first([shorten(name) for name in names], most)
