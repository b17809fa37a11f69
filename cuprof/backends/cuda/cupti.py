"""Kernel durations from CUPTI's activity records of this process; needs cupti-python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from cuprof.core.errors import LaunchError, needing

BUFFER_BYTES = 1 << 20
OWN_PREFIX = "cuprof_"
"""Kernels of the timing apparatus (device_kernels.cu) start with this and are no part of an execution."""
MARK = "cuprof_empty"
"""The kernel that precedes a frame which CUPTI times: a set-up lies before it."""


class Record(NamedTuple):
    """One kernel, with its times by the device's clock."""

    name: str
    start_ns: int
    end_ns: int


class CuptiRecords:
    """Collect records of this process's kernels; one instance a process, since CUPTI serves one subscriber."""

    def __init__(self) -> None:
        with needing("cupti-python", "pip install cupti-python, or use measure.timer=events"):
            from cupti import cupti
        self._cupti = cupti
        self._records: list[Record] = []
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self._take)  # 0: as many records as fit
        cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)

    def clear(self) -> None:
        """Drop the records so far."""
        self._cupti.activity_flush_all(1)
        self._records.clear()

    def read(self) -> list[Record]:
        """Return the records since `clear`, in the order of their start; the device must be idle."""
        self._cupti.activity_flush_all(1)
        return sorted(self._records, key=lambda each: each.start_ns)

    def _take(self, activities: Any) -> None:
        self._records += (Record(str(each.name), int(each.start), int(each.end)) for each in activities)


get_records = cache(CuptiRecords)
"""Return this process's records, which are collected from the first call on; raise `MissingDependencyError`."""


def span_ns(records: Sequence[Record]) -> float:
    """Return the time from the first kernel's start to the last one's end in a frame.

    Raises:
        LaunchError: no kernel ran.
    """
    began_ns = max((each.start_ns for each in records if each.name == MARK), default=0)
    found = [each for each in records if each.start_ns >= began_ns and not each.name.startswith(OWN_PREFIX)]
    if not found:
        raise LaunchError("CUPTI recorded no kernel; measure.timer=events also times copies and fills")
    return float(max(each.end_ns for each in found) - min(each.start_ns for each in found))
