"""Which rows of a foreign database a merge refuses: those that cuprof would never have written."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from cuprof.core.records import Measure, State
from cuprof.store.types import UtcTime

CLOCK_SKEW_S = 86_400.0
"""Dates up to a day ahead are accepted: clocks of hosts differ, and some keep local time as UTC."""
SHORTEST_NS = 1e-3
"""A picosecond: less than the step of any timer, even divided by the executions of a batch."""
MOST_ROUNDS = 1 << 31
"""More than a sweep has."""
SWEEP_ENDS = ("finished", "interrupted")
WORDS: Mapping[tuple[str, str], Collection[str]] = {
    **dict.fromkeys([("run", "state"), ("trial", "state"), ("profile", "state")], frozenset(State)),
    ("timing", "measure"): frozenset(Measure),
    ("sweep", "state"): ("running", *SWEEP_ENDS),
    ("variant", "expected"): ("right", "wrong"),
}
"""The values of columns whose readers know these words only."""
DURATIONS = {
    *(("timing", name) for name in ("median_ns", "mean_ns", "min_ns", "max_ns", "q1_ns", "q3_ns", "high_ns")),
    ("launch", "duration_ns"),
}
SIZES = {
    *(("timing", name) for name in ("low_ns", "stdev_ns", "confidence", "energy_j", "mean_w", "idle_w")),
    *(("calibration", name) for name in ("read_bandwidth", "event_overhead_ns")),
    *((table, "duration_ns") for table in ("run", "profile")),
    *((table, "process_started") for table in ("sweep", "station")),
}
"""Columns that may be zero."""
COORDINATES = {("problem", "coordinates"), ("trial", "tunables")}
SETTINGS = {("sweep", "configuration"): ("measure", "search")}
"""The groups of settings whose parts commands read."""


def find_fault(table: sa.Table, row: Mapping[str, Any], now: float) -> str:
    """Return why a row is refused for the value of one of its columns, empty when it is not.

    Args:
        now: seconds since the epoch.
    """
    for column in table.c:
        name, value, place = column.name, row.get(column.name), (table.name, column.name)
        if value is None:
            continue
        if place in COORDINATES and not all(isinstance(each, int | float | str) for each in value.values()):
            return f"{name} has a value that is neither a number nor a text"
        if place in SETTINGS and not all(isinstance(value.get(group) or {}, Mapping) for group in SETTINGS[place]):
            return f"{name} has a value in the place of a group"
        if place in DURATIONS and not _is_duration(value):
            return f"{name} is not a possible duration"
        if place in SIZES and not 0 <= value < math.inf:
            return f"{name} is not a possible value"
        if isinstance(column.type, UtcTime) and not 0 < value <= now + CLOCK_SKEW_S:  # 0 is stored as unknown
            return f"{name} is in the future or before 1970"
        if place in WORDS and value not in WORDS[place]:
            return f"{name} is an unknown word"
        if isinstance(column.type, sa.Integer) and value < 0:
            return f"{name} is negative"
    return ""


def _is_duration(value: Any) -> bool:
    return bool(SHORTEST_NS <= value < math.inf)


def find_timing_fault(timing: Mapping[str, Any], *, is_ok: bool) -> str:
    """Return why a timing is refused for several of its columns together, empty when it is not.

    Args:
        is_ok: it is of an ok run.
    """
    tick_ns, batch = (timing["details"].get(name) for name in ("tick_ns", "batch"))
    known = [each for each in (timing[name] for name in ("low_ns", "median_ns", "high_ns")) if each is not None]
    if not all(isinstance(each, int | float | None) for each in (tick_ns, batch)):
        return "details has a text where a number belongs"
    if known != sorted(known):
        return "median_ns is not between low_ns and high_ns"
    if (timing["confidence"] or 0) > 1:
        return "confidence is above 1"
    is_below = is_ok and None not in (tick_ns, timing["median_ns"]) and timing["median_ns"] < tick_ns
    return "median_ns is below the resolution of its timer" if is_below else ""


def find_samples_fault(samples: Mapping[str, Any]) -> str:
    """Return why the samples of a timing are refused, empty when they are not."""
    durations, exclusions = samples["durations_ns"], samples["exclusions"] or [""] * len(samples["durations_ns"])
    for name in ("rounds", "sm_clocks_mhz", "exclusions"):
        if samples[name] is not None and len(samples[name]) != len(durations):
            return f"{name} and durations_ns have different lengths"
    if not all(type(each) is int and -1 <= each < MOST_ROUNDS for each in samples["rounds"]):
        return "rounds has an impossible number"
    if not all(isinstance(each, str) for each in exclusions):
        return "exclusions has a reason that is not a text"
    counted = [one for one, excluded in zip(durations, exclusions, strict=True) if one is not None and not excluded]
    if not {int, float, type(None)}.issuperset(map(type, durations)) or not all(map(_is_duration, counted)):
        return "durations_ns has a sample that is not a possible duration"
    return "" if counted else "durations_ns has no sample that counts"
