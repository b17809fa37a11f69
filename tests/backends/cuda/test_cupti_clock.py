"""Which of CUPTI's records are an execution's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cuprof.backends.cuda.cupti_clock import CuptiClock
from cuprof.core.errors import LaunchError


def clock_of(*records: tuple[str, int, int]) -> CuptiClock:
    clock = CuptiClock.__new__(CuptiClock)
    found = [SimpleNamespace(name=name, start_ns=start, end_ns=end) for name, start, end in records]
    clock._records = SimpleNamespace(read=lambda: found)  # type: ignore[assignment]
    return clock


FRAME = [
    ("cuprof_refill", 0, 10),
    ("cuprof_read_through", 30, 90),
    ("cuprof_mark", 100, 101),
    ("cuprof_mark", 200, 201),
]


def test_the_span_is_of_the_kernels_in_the_frame_and_a_set_up_is_none_of_them() -> None:
    assert clock_of(*FRAME, ("mine", 110, 150), ("mine", 160, 190)).span_ns() == 80.0
    assert clock_of(*FRAME, ("prepare", 12, 28), ("mine", 110, 150)).span_ns() == 40.0


def test_an_execution_without_a_kernel_has_no_span() -> None:
    with pytest.raises(LaunchError, match="CUPTI recorded no kernel"):
        clock_of(*FRAME, ("prepare", 12, 28)).span_ns()
