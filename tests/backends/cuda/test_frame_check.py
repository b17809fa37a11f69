"""What CUPTI's records of one execution say of its frame."""

from __future__ import annotations

import pytest

from cuprof.backends.cuda.cupti_records import Record
from cuprof.backends.cuda.frame_check import MEND, describe_outside

US = 1000
APPARATUS = (
    Record("cuprof_hold", 0, 50 * US, 7),
    Record("cuprof_refill", 50 * US, 60 * US, 7),
    Record("cuprof_read_through", 60 * US, 90 * US, 7),
    Record("cuprof_mark", 91 * US, 92 * US, 7),
    Record("cuprof_mark", 120 * US, 121 * US, 7),
)


def test_work_within_the_frame_is_nothing_to_tell() -> None:
    within = (Record("mine", 93 * US, 110 * US, 7), Record("a copy", 100 * US, 119 * US, 13))
    assert describe_outside((*APPARATUS, *within)) == ""
    assert describe_outside(APPARATUS) == ""


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (Record("mine", 110 * US, 160 * US, 13), "mine ends 40.0 µs after it, on stream 13"),
        (Record("a fill", 300 * US, 310 * US, 13), "a fill ends 190.0 µs after it, on stream 13"),
        (Record("warm", 40 * US, 110 * US, 13), "warm begins 52.0 µs before it, on stream 13"),
        (Record("cuprof_hold", 100 * US, 160 * US, 13), "cuprof_hold ends 40.0 µs after it, on stream 13"),
    ],
)
def test_work_outside_of_it_is_told_with_its_mend(record: Record, told: str) -> None:
    assert describe_outside((*APPARATUS, record)) == f"it works outside its frame: {told}; {MEND}"


def test_a_kernel_named_like_a_mark_is_told() -> None:
    late = Record("cuprof_mark", 110 * US, 200 * US, 13)
    assert describe_outside((*APPARATUS, late)).startswith("it launches a kernel named cuprof_mark")


def test_without_marks_nothing_is_told() -> None:
    assert describe_outside(APPARATUS[:3]) == ""
