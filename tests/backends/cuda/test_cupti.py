"""Which of CUPTI's records are an execution's."""

from __future__ import annotations

import pytest

from cuprof.backends.cuda.cupti import Record, span_ns
from cuprof.core.errors import LaunchError


def span(*records: tuple[str, int, int]) -> float:
    frame = [
        ("cuprof_empty", 0, 1),
        ("cuprof_refill", 2, 10),
        ("cuprof_read_through", 30, 90),
        ("cuprof_empty", 100, 101),
    ]
    return span_ns([Record(*each) for each in (*frame, ("cuprof_verify", 200, 210), *records)])


def test_the_span_is_of_the_kernels_in_the_frame_and_a_set_up_is_none_of_them() -> None:
    assert span(("mine", 110, 150), ("mine", 160, 190)) == 80.0
    assert span(("prepare", 12, 28), ("mine", 110, 150)) == 40.0


def test_an_execution_without_a_kernel_has_no_span() -> None:
    with pytest.raises(LaunchError, match="CUPTI recorded no kernel"):
        span(("prepare", 12, 28))
