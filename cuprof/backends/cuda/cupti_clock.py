"""Kernel durations from CUPTI's activity records, for those who have installed cupti-python."""

from __future__ import annotations

from typing import Any

from cuprof.errors import LaunchError, MissingDependencyError

OWN_PREFIX = "cuprof_"
"""Kernels of the timing apparatus (device_kernels.cu) start with this and are no part of an execution."""
BUFFER_BYTES = 1 << 20


class CuptiClock:
    """Collect kernel records of this process; one instance a process, since CUPTI serves one subscriber."""

    def __init__(self) -> None:
        try:
            from cupti import cupti
        except ImportError:
            raise MissingDependencyError(
                "cupti-python", "pip install cupti-python, or use measure.timer=events"
            ) from None
        self._cupti = cupti
        self._records: list[tuple[int, int]] = []
        cupti.activity_register_callbacks(_give_buffer, self._take)
        cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)

    def start(self) -> None:
        """Forget what has been recorded."""
        self._cupti.activity_flush_all(1)
        self._records.clear()

    def span_ns(self) -> float:
        """Return the time from the first kernel's start to the last one's end since `start`, the device being idle.

        Raises:
            LaunchError: no kernel ran.
        """
        self._cupti.activity_flush_all(1)
        if not self._records:
            raise LaunchError("CUPTI recorded no kernel; measure.timer=events also times copies and fills")
        return float(max(end for _, end in self._records) - min(start for start, _ in self._records))

    def _take(self, activities: Any) -> None:
        for activity in activities:
            if not str(activity.name).startswith(OWN_PREFIX):
                self._records.append((int(activity.start), int(activity.end)))


def _give_buffer() -> tuple[int, int]:
    """Return CUPTI's buffer size and the most records in it (0: as many as fit)."""
    return BUFFER_BYTES, 0
