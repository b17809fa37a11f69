"""Trials as another tool measured them, and what every reader of such files needs.

Times of other tools are compared and shown, never stored as our own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.point import Coordinate, Point
from cuprof.core.records import Measure, State
from cuprof.interop.files import read_bytes

MOST_BYTES = 1 << 30
LEAST_NS, MOST_NS = 1e-3, 1e18
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


def parse_json(path: Path) -> Any:
    """Return what a JSON file holds; editors on Windows put a mark ahead.

    Raises:
        UsageError: it is no JSON.
    """
    try:
        return json.loads(read_bytes(path, MOST_BYTES).decode("utf-8-sig"))
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{path} is no JSON ({error})") from None


def as_durations(values: Any, factor: float) -> np.ndarray:
    """Return times in ns, those that a measurement can have given: of a picosecond to thirty years.

    Args:
        factor: ns in the unit of the values.

    Raises:
        ValueError: one of the values is no number.
    """
    if not isinstance(values, list | tuple) or not all(type(one) in (int, float) for one in values):
        raise ValueError("times must be a list of numbers")
    with np.errstate(all="ignore"):
        found = np.array([_finite(one) for one in values], np.float64) * factor
        return found[(found >= LEAST_NS) & (found <= MOST_NS)]


def as_point(coordinates: Any) -> Point:
    """Return coordinates on named axes.

    Raises:
        ValueError: a value is neither a number nor a text.
    """
    if not isinstance(coordinates, dict):
        raise ValueError("a configuration must be an object")
    for name, value in coordinates.items():
        is_plain = isinstance(value, Coordinate) and (not isinstance(value, float) or math.isfinite(value))
        if not is_plain or (isinstance(value, int) and value.bit_length() > 64):
            raise ValueError(f"{name} must be a number or a text")
    return Point({str(name): value for name, value in coordinates.items()})


def _finite(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
