"""What is called for one execution in the process of a candidate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cuprof.backends.contract import Runnable
from cuprof.judge.border.inside import Stage
from cuprof.judge.border.signals import SECOND

OUTPUT, OTHER = object(), object()


@pytest.mark.parametrize(
    ("facts", "is_bare"),
    [
        ({}, True),
        ({"setup": (print,)}, False),
        ({"deliver": print}, False),
        ({"results": {"y": OTHER}}, False),
        ({"reduced": {"y": ("first", "parts")}}, False),
    ],
    ids=["nothing else", "set-up", "returned", "elsewhere", "reduced"],
)
def test_a_function_is_called_by_itself_where_nothing_else_is_to_be_done(facts: dict[str, Any], is_bare: bool) -> None:
    """A candidate could replace what is ours there, and save microseconds that the baseline takes."""
    runnable = Runnable(Mock(), **{"results": {"y": OUTPUT}, **facts})
    session = SimpleNamespace(outputs={"y": OUTPUT}, land=Mock())
    call = Stage._as_call(Mock(spec=Stage), session, runnable)
    assert (call is runnable.enqueue) is is_bare
    call()
    assert runnable.enqueue.call_count == 1  # type: ignore[attr-defined]
    assert session.land.call_count == (not is_bare)


@pytest.mark.parametrize(("count", "expected"), [(1, [0]), (3, [0, 1, 2]), (SECOND, [1])])
def test_it_executes_on_the_first_sets_or_on_the_second_alone(count: int, expected: list[int]) -> None:
    stage, executed = Stage.__new__(Stage), list[int]()
    stage.calls, stage.graphs = [lambda number=number: executed.append(number) for number in range(3)], {}
    stage.execute(count)
    assert executed == expected
