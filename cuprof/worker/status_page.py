"""Report a worker's activity in a few bytes of shared memory that outlive the worker.

The worker writes before every step that can crash or hang; the engine reads at any time, even after the worker was
killed. Writing costs well under a microsecond, so even single samples are announced.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

LAYOUT = struct.Struct("<qQqq")  # a phase without a sign, so that none is counted from the end
NO_TRIAL = -1


class Phase(StrEnum):
    """The phase that a trial is in, as messages name it. The page has its place among the phases."""

    IDLE = "idling"
    START = "starting"
    INPUTS = "making inputs and reference"
    BUILD = "building"
    CHECK = "checking"
    TIME = "timing"
    CALIBRATE = "measuring the device"


_PHASES = tuple(Phase)


@dataclass(frozen=True)
class Status:
    """One reading: the trial's index in its job (or `NO_TRIAL`), the phase, and for how long.

    Args:
        begun: trials of all jobs whose own code has run in this process, including this one.
    """

    index: int
    phase: Phase
    since_ns: int
    begun: int = 0

    @property
    def has_company(self) -> bool:
        """Return whether other trials have run in the process: their leftovers may have caused this one's fate."""
        return self.begun > 1

    @property
    def age_s(self) -> float:
        """Return the seconds since the phase was entered."""
        return (time.monotonic_ns() - self.since_ns) * 1e-9


class StatusPage:
    """A file of one record, mapped by the worker, which writes, and the engine, which reads."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(LAYOUT.pack(NO_TRIAL, _PHASES.index(Phase.START), time.monotonic_ns(), 0))
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), LAYOUT.size)
        self._begun = 0

    def begin(self) -> None:
        """Count one more trial, from the next phase that is entered: its own code is going to be run."""
        self._begun += 1

    def enter(self, index: int, phase: Phase) -> None:
        """Say that a phase of a trial begins now."""
        self._map[:] = LAYOUT.pack(index, _PHASES.index(phase), time.monotonic_ns(), self._begun)

    def read(self) -> Status:
        """Return the last recorded status."""
        record = os.pread(self._file.fileno(), LAYOUT.size, 0)  # a map of a file that was cut off would end us
        try:
            index, phase, since_ns, begun = LAYOUT.unpack(record)
            return Status(index, _PHASES[phase], since_ns, begun)
        except (struct.error, IndexError):  # a variant wrote over it
            return Status(NO_TRIAL, Phase.IDLE, time.monotonic_ns())

    def close(self) -> None:
        """Unmap."""
        self._map.close()
        self._file.close()
