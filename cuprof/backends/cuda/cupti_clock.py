"""Kernel durations from CUPTI's activity records; needs cupti-python."""

from __future__ import annotations

from cuprof.backends.cuda.cupti_records import get_records
from cuprof.backends.cuda.frame_check import MARK
from cuprof.core.errors import LaunchError, MissingDependencyError

OWN_PREFIX = "cuprof_"
"""Kernels of the timing apparatus (device_kernels.cu) start with this and are no part of an execution."""


class CuptiClock:
    """Take durations from the records of this process's kernels."""

    def __init__(self) -> None:
        try:
            self._records = get_records()
        except ImportError:
            raise MissingDependencyError(
                "cupti-python", "pip install cupti-python, or use measure.timer=events"
            ) from None
        self._records.enable(self._records.kernels)

    def start(self) -> None:
        """Drop the records so far."""
        self._records.clear()

    def span_ns(self) -> float:
        """Return the time from the first kernel's start to the last one's end in the frame, the device being idle.

        Raises:
            LaunchError: no kernel ran.
        """
        records = self._records.read()
        began_ns = min((each.start_ns for each in records if each.name == MARK), default=0)  # a set-up lies before it
        found = [each for each in records if each.start_ns >= began_ns and not each.name.startswith(OWN_PREFIX)]
        if not found:
            raise LaunchError("CUPTI recorded no kernel; measure.timer=events also times copies and fills")
        return float(max(each.end_ns for each in found) - min(each.start_ns for each in found))
