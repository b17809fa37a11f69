"""Points: read by name or attribute, immutable, equal by their coordinates, whatever those are called."""

from __future__ import annotations

import copy
import pickle

import pytest

from cuprof.core.point import Point


def test_coordinates_are_read_both_ways() -> None:
    point = Point({"n": 2**24, "dtype": "float32"}, block=64)
    assert (point.n, point["dtype"], point.get("block"), len(point)) == (2**24, "float32", 64, 3)
    assert [*point] == ["n", "dtype", "block"]
    assert (point.label, repr(Point(n=1000))) == ("n=2^24, dtype=float32, block=64", "Point(n=1000)")


def test_a_coordinate_named_like_a_method_hides_none() -> None:
    point = Point(values=1, keys=2, items=3, get=4, label=5)
    assert point["values"] == 1
    assert dict(point) == {"values": 1, "keys": 2, "items": 3, "get": 4, "label": 5}
    assert next(iter(point.items())) == ("values", 1)


def test_equality_ignores_the_order_and_hashes_agree() -> None:
    one, other = Point(a=1, b=2), Point(b=2, a=1)
    assert one == other == {"b": 2, "a": 1}
    assert hash(one) == hash(other)
    assert one != Point(a=1)
    assert one != "a=1, b=2"


def test_it_cannot_be_changed() -> None:
    point = Point(n=1)
    with pytest.raises(AttributeError, match="a Point is immutable"):
        point.n = 2
    with pytest.raises(AttributeError, match="no coordinate 'm'; there are n"):
        _ = point.m
    with pytest.raises(TypeError):
        point["n"] = 2  # type: ignore[index]


def test_it_travels_and_a_copy_is_equal() -> None:
    point = Point(n=1, name="x")
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == copy.copy(point) == point


def test_what_a_family_keeps_does_not_change_it() -> None:
    given = {"n": 1}
    point = Point(given)
    given["n"] = 2
    assert point.n == 1
