"""Which rows of a foreign database a merge refuses: those that cuprof would never have written."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

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


class Rule(NamedTuple):
    """What the values of a column must be, where there is one, and what to say of another one."""

    column: str
    allows: Callable[[Any], bool]
    fault: str


def list_rules(table: sa.Table, now: float) -> list[Rule]:
    """Return the rules of a table's columns.

    Args:
        now: seconds since the epoch.
    """
    rules = [Rule(name, _is_duration, f"{name} is not a possible duration") for name in _DURATIONS.get(table.name, ())]
    rules += [Rule(name, _is_size, f"{name} is not a possible value") for name in _SIZES.get(table.name, ())]
    for column in table.c:
        if isinstance(column.type, UtcTime):
            rules.append(Rule(column.name, partial(_is_past, now), f"{column.name} is in the future or before 1970"))
        elif words := WORDS.get((table.name, column.name)):
            rules.append(Rule(column.name, words.__contains__, f"{column.name} is an unknown word"))
    return rules


_DURATIONS: Mapping[str, Sequence[str]] = {
    "timing": ("median_ns", "mean_ns", "min_ns", "max_ns", "q1_ns", "q3_ns", "high_ns"),
    "launch": ("duration_ns",),
}
_SIZES: Mapping[str, Sequence[str]] = {
    "timing": ("low_ns", "stdev_ns", "confidence", "energy_j", "mean_w", "idle_w"),
    "calibration": ("read_bandwidth", "event_overhead_ns"),
    "run": ("duration_ns",),
    "profile": ("duration_ns",),
}
"""Columns that may be zero."""


def _is_duration(value: Any) -> bool:
    return bool(SHORTEST_NS <= value < math.inf)


def _is_size(value: Any) -> bool:
    return bool(0 <= value < math.inf)


def _is_past(now: float, value: float) -> bool:
    return 0 < value <= now + CLOCK_SKEW_S  # 0 is stored as unknown


def find_timing_fault(timing: Mapping[str, Any]) -> str:
    """Return why a timing of an ok run is refused, empty when it is not."""
    tick_ns, median_ns = timing["details"].get("tick_ns"), timing["median_ns"]
    is_below = isinstance(tick_ns, (int, float)) and median_ns is not None and median_ns < tick_ns
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
