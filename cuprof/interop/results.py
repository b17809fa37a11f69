"""Trials as another tool measured them; they are compared and shown, never stored as our own.

A package adds a reader by an entry point of the group `cuprof.results`: an object with `recognizes(head)`, which says
whether a file that begins so is the tool's, and `read(path)`, which returns an `Imported`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.interop.files import open_regular

GROUP = "cuprof.results"
BUILT_IN = {name.lower(): f"cuprof.interop.readers:{name}" for name in ("KERNEL_TUNER", "NVBENCH")}
"""nvbench's reader accepts any JSON, so it comes last."""
LOOKED_AT = 100_000
"""Bytes of a file that a reader gets to recognise its own format."""
MOST_BYTES = 1 << 30
FAULTS = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(ArithmeticError, RecursionError, MemoryError),
)
"""Errors that a damaged or malicious file may raise while it is read."""


@dataclass(frozen=True)
class ImportedTrial:
    """One configuration as another tool measured it.

    Args:
        family: the kernel or the benchmark.
        device_id: its number, where the file has several devices.
        measure: what the durations are durations of.
        durations_ns: the samples; a mean alone is one value.
        relative_error: standard error of a mean alone, relative to it.
        message: why there is no time.
    """

    family: str
    problem: Point = field(default_factory=Point)
    tunables: Point = field(default_factory=Point)
    device: str = ""
    device_id: int | None = None
    measure: Measure = Measure.COLD
    durations_ns: np.ndarray = field(default_factory=lambda: np.empty(0))
    relative_error: float = 0.0
    state: State = State.OK
    message: str = ""


@dataclass(frozen=True)
class Imported:
    """What a file holds.

    Args:
        kind: the tool's name in a word.
        tool: its name for people.
        notes: what a reader must know before believing a comparison with these times.
    """

    kind: str
    tool: str
    trials: Sequence[ImportedTrial]
    notes: tuple[str, ...] = ()


def read_results(path: Path) -> Imported:
    """Return what a file of another tool holds; readers of installed packages are asked first.

    Raises:
        UsageError: it cannot be read, or no reader knows it.
    """
    with open_regular(path, MOST_BYTES) as stream:
        head = stream.read(LOOKED_AT).decode("utf-8-sig", "replace")
    names = list_plugins(GROUP, BUILT_IN)
    for name in (*(name for name in names if name not in BUILT_IN), *BUILT_IN):
        reader = load_plugin(GROUP, name, BUILT_IN, "reader of results")
        if reader.recognizes(head):
            try:
                found: Imported = reader.read(path)
                return found
            except FAULTS as error:
                raise UsageError(f"{path} is not what {name} writes ({type(error).__name__}: {error})") from None
    raise UsageError(f"{path} holds no results that cuprof can read; known are files of {', '.join(names)}")
