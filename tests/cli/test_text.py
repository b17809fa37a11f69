from __future__ import annotations

import pytest

from cuprof.cli.labels import FAILED_STYLE, format_duration, format_time, mark_of
from cuprof.core.records import State


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0.5, "0.5000 ns"),
        (999, "999.0 ns"),
        (1000, "1.000 µs"),
        (12_345, "12.35 µs"),
        (3.2e6, "3.200 ms"),
        (2e9, "2.000 s"),
    ],
)
def test_times(duration_ns: float, text: str) -> None:
    assert format_time(duration_ns) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (3.21, "3.2 s"), (45.4, "45 s"), (59.6, "1:00"), (185, "3:05"), (7800, "2:10:00")],
)
def test_spans(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_every_state_has_a_mark_of_its_own() -> None:
    marks = [mark_of(state)[0] for state in State]
    assert len(set(marks)) == len(State)
    assert all(mark.isascii() for mark in marks)


def test_failures_stand_out() -> None:
    assert mark_of(State.WRONG_RESULT)[1] == FAILED_STYLE != mark_of(State.OK)[1]
