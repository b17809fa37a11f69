"""This process's activity on the device, from CUPTI's records; needs cupti-python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class Record:
    """One kernel, copy or fill, with its times by the device's clock."""

    name: str
    start_ns: int
    end_ns: int
    stream: int


class CuptiRecords:
    """Collect records of this process; one instance a process, since CUPTI serves one subscriber."""

    def __init__(self) -> None:
        from cupti import cupti

        self._cupti = cupti
        kinds = cupti.ActivityKind
        self.kernels = (kinds.CONCURRENT_KERNEL,)
        self.everything = (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET)
        self._names = {int(kinds.MEMCPY): "a copy", int(kinds.MEMSET): "a fill"}
        self._enabled: set[Any] = set()
        self._records: list[Record] = []
        cupti.activity_register_callbacks(_give_buffer, self._take)

    def enable(self, kinds: tuple[Any, ...]) -> None:
        """Collect records of these kinds from now on."""
        for kind in kinds:
            if kind not in self._enabled:
                self._cupti.activity_enable(kind)
                self._enabled.add(kind)

    @contextmanager
    def collecting(self, kinds: tuple[Any, ...]) -> Iterator[None]:
        """Collect records of these kinds within a block."""
        added = [kind for kind in kinds if kind not in self._enabled]
        self.enable(kinds)
        try:
            yield
        finally:
            for kind in added:
                self._cupti.activity_disable(kind)
                self._enabled.discard(kind)

    def clear(self) -> None:
        """Drop the records so far."""
        self._cupti.activity_flush_all(1)
        self._records.clear()

    def read(self) -> list[Record]:
        """Return the records since `clear`; the device must be idle."""
        self._cupti.activity_flush_all(1)
        return list(self._records)

    def _take(self, activities: Any) -> None:
        for activity in activities:
            name = self._names.get(int(activity.kind)) or str(activity.name)
            self._records.append(Record(name, int(activity.start), int(activity.end), int(activity.stream_id)))


@cache
def get_records() -> CuptiRecords:
    """Return this process's records; raises ImportError where cupti-python is not installed."""
    return CuptiRecords()


def _give_buffer() -> tuple[int, int]:
    """Return CUPTI's buffer size and the most records in it (0: as many as fit)."""
    return BUFFER_BYTES, 0
