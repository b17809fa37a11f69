"""The counters of a sweep's trials in one cache mode: the newest value of each trial and metric.

Two kinds of values are left out:

- Ratios of nothing. A kernel that copies global memory to shared memory asynchronously executes no load instruction
  that is counted, and Nsight Compute gives 0 bytes for each of its 0 loaded sectors. Read as a measurement, that would
  be the worst possible coalescing. The weight of a ratio in the roll-up (`cuprof.ncu.metrics`) is what it divides by.
- Counters of a library's other algorithm. A library that times its algorithms and takes the fastest does so again in
  the profiling process, where Nsight Compute lengthens every launch. Which one ran cannot be asked, but a profiled
  launch takes about as long as a timed one, unless it is another kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import pandas as pd
from sqlalchemy.engine import Connection

from cuprof.ncu.metrics import METRICS
from cuprof.report.trials import grouped
from cuprof.report.units import format_counter, format_value
from cuprof.results.counters import (
    LaunchAdvice,
    LaunchCounter,
    ProfileDuration,
    TrialCounter,
    list_profile_durations,
    list_rows,
)

UNLOCKED = ("none", "")
"""Clock controls of Nsight Compute that leave the clocks alone, or are unknown."""
Key = tuple[int, str]
"""A trial's number and a metric."""
FACTOR = 1.5
"""Profiled and timed durations further apart than this are of two algorithms.

Of 64 library calls profiled cold on an H200, 56 were within 1.5, those of them above 10 µs within 1.31. The other 8,
all of them convolutions whose algorithm PyTorch had searched for, were 1.65 to 4.04 apart.
"""
SHORT_NS = 10_000.0
"""Profiles no longer than this are not judged: around a short kernel Nsight Compute itself adds 30 to 70 %."""
OTHER_ALGORITHM, HOT_ONLY = "profiled with another algorithm", "profiled hot only"
"""Why a trial has no number of a counter."""
MOST_LAUNCHES = 6
Row = TypeVar("Row", TrialCounter, LaunchCounter)


@dataclass(frozen=True)
class Counters:
    """The stored counters of some trials, all of one cache mode, since a cold and a hot value differ by the caches.

    Args:
        launches: launch by launch what the values were rolled up from.
        advice: trial's number → the profiler's own words.
        hot_only: left out of a study of cold ones, as only hot ones are stored.
        other_algorithm: left out because the library took another algorithm under the profiler than was timed → the
            durations that show it, as text.
    """

    values: Mapping[Key, TrialCounter] = field(default_factory=dict)
    launches: Mapping[Key, Sequence[LaunchCounter]] = field(default_factory=dict)
    advice: Mapping[int, Sequence[LaunchAdvice]] = field(default_factory=dict)
    hot_only: frozenset[Key] = frozenset()
    other_algorithm: Mapping[Key, str] = field(default_factory=dict)

    @cached_property
    def of(self) -> Mapping[int, Mapping[str, TrialCounter]]:
        """Return trial's number → metric → value, of the trials that have any."""
        of_trials = grouped(self.values.items(), lambda item: item[0][0])
        return {trial: {metric: row for (_, metric), row in items} for trial, items in of_trials.items()}

    def value_of(self, trial: int, metric: str) -> float | None:
        """Return a trial's value of a metric, None where it has no number."""
        row = self.values.get((trial, metric))
        return row.value if row else None

    def unit_of(self, metric: str) -> str:
        """Return the unit that a metric is stored in, empty for none."""
        return next((row.unit for row in self.values.values() if row.metric == metric and row.unit), "")

    @property
    def mode(self) -> str:
        """Return the mode that all of them are of: "cold" or "hot", empty without any."""
        return next((row.cache_mode for row in self.values.values()), "")

    def why_missing(self, trial: int, metric: str) -> str:
        """Return why a trial has no number of a counter: it is left out, or the profiler's text; empty if unknown."""
        key, row = (trial, metric), self.values.get((trial, metric))
        if key in self.other_algorithm:
            return OTHER_ALGORITHM
        return HOT_ONLY if key in self.hot_only else (row.text if row else "") or ""

    def launches_text(self, trial: int, metric: str) -> str:
        """Return the metric launch by launch: "scalar_prods 9, sum_taps 1", or "first of 4 launches: 671" for one.

        Empty for a single launch and where every launch has the same value, which the trial's own value then is or
        sums.
        """
        rows = self.launches.get((trial, metric), ())
        found = [(row.kernel, format_counter(row.value, row.text)) for row in rows]
        if len({text for _, text in found}) < 2:
            return ""
        kernels = [(kernel, [text for _, text in group]) for kernel, group in groupby(found, key=lambda each: each[0])]
        if len(kernels) == 1:
            return f"first of {len(found)} launches: {found[0][1]}"
        if len(kernels) > MOST_LAUNCHES:
            return f"{len(found)} launches of {len({kernel for kernel, _ in kernels})} kernels"
        return ", ".join(f"{kernel} {_listed(texts)}" for kernel, texts in kernels)


def _listed(texts: list[str]) -> str:
    return "; ".join(texts if len(texts) <= MOST_LAUNCHES else [*texts[:2], f"… {texts[-1]}"])


def read_counters(connection: Connection, sweep_id: int, trials: pd.DataFrame) -> Counters:
    """Return the counters of a sweep's trials, all of one mode: cold where any trial has a cold one, as the times are.

    For the same reason counters taken with locked clocks are left out where others are there, and those of a library's
    other algorithm than the timed one always. Ratios of nothing have no value. A trial profiled several times in that
    mode keeps, of each metric, its newest value.

    Args:
        trials: rows of a study's frame.
    """
    stored = list_rows(connection, sweep_id, TrialCounter)
    if not stored:
        return Counters()
    unlocked = [row for row in list_profile_durations(connection, sweep_id) if row.clock_control in UNLOCKED]
    others = find_other_algorithms(trials, unlocked)
    counters = blank_undefined([row for row in stored if row.profile_id not in others], lambda row: row.profile_id)
    counters = [row for row in counters if row.clock_control in UNLOCKED] or counters
    mode = "cold" if any(row.cache_mode == "cold" for row in counters) else "hot"
    in_mode = [row for row in counters if row.cache_mode == mode]
    in_mode.sort(key=lambda row: (row.trial_id, row.metric, row.profile_id))
    values = {(row.trial_id, row.metric): row for row in in_mode}  # the newest profile's
    chosen = {(row.profile_id, row.metric) for row in values.values()}
    launches = [row for row in list_rows(connection, sweep_id, LaunchCounter) if (row.profile_id, row.metric) in chosen]
    profiles = {row.profile_id for row in counters}
    advice = [
        row
        for row in list_rows(connection, sweep_id, LaunchAdvice)
        if row.profile_id in profiles and row.cache_mode == mode
    ]
    newest = {row.trial_id: row.profile_id for row in sorted(advice, key=lambda row: row.profile_id)}
    return Counters(
        values,
        grouped(
            blank_undefined(launches, lambda row: (row.profile_id, row.ordinal)),
            lambda row: (row.trial_id, row.metric),
        ),
        grouped((row for row in advice if row.profile_id == newest[row.trial_id]), lambda row: row.trial_id),
        frozenset((row.trial_id, row.metric) for row in counters) - frozenset(values),
        {
            (row.trial_id, row.metric): others[row.profile_id]
            for row in stored
            if row.profile_id in others
            and (row.trial_id, row.metric) not in values
            and (row.cache_mode == mode or not counters)
        },
    )


def find_other_algorithms(trials: pd.DataFrame, profiles: Iterable[ProfileDuration]) -> dict[int, str]:
    """Return the profiles (by number, with clocks as when timing) of library calls that took another algorithm.

    The evidence stands beside each: the launches' summed duration under Nsight Compute, and the median without it.

    Args:
        trials: rows of a study's frame.
    """
    libraries = trials[trials["kind"] == "library"].set_index("id")
    medians = {mode: libraries[f"{mode}_ns"].dropna().to_dict() for mode in ("cold", "hot")}
    found = {}
    for profile in profiles:
        timed_ns = medians.get(profile.cache_mode, {}).get(profile.trial_id, 0.0)
        profiled_ns = profile.duration_ns or 0.0
        if profiled_ns > SHORT_NS and timed_ns > 0 and not 1 / FACTOR <= profiled_ns / timed_ns <= FACTOR:
            profiled, timed = (format_value("time", each) for each in (profiled_ns, timed_ns))
            found[profile.profile_id] = f"{profiled} under Nsight Compute, {timed} timed"
    return found


def blank_undefined(counters: Sequence[Row], together: Callable[[Row], Any]) -> list[Row]:
    """Return the counters without the ratios whose weight is zero: no value, and `text` says what was not counted.

    Args:
        together: what a counter was counted together with: its profile, or its launch.
    """
    values = {(together(row), row.metric): row.value for row in counters}

    def blanked(row: Row) -> Row:
        weight = row.rollup.partition(":")[2]
        if not weight or values.get((together(row), weight)) != 0:
            return row
        metric = METRICS.get(weight)
        return row._replace(value=None, text=metric.absence if metric and metric.absence else f"{weight} is 0")

    return [blanked(row) for row in counters]
