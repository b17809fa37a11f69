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

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import pandas as pd
from sqlalchemy.engine import Connection

from cuprof.ncu.metrics import METRICS
from cuprof.report.trials import grouped
from cuprof.report.units import format_counter, format_value
from cuprof.results import counters as stored

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


@dataclass(frozen=True)
class Counters:
    """The stored counters of some trials, all of one cache mode, since a cold and a hot value differ by the caches.

    Args:
        values: rows of `read_counters`.
        launches: launch by launch what the values were rolled up from.
        advice: trial's number → the profiler's own words.
        hot_only: left out of a study of cold ones, as only hot ones are stored.
        other_algorithm: left out because the library took another algorithm under the profiler than was timed → the
            durations that show it, as text.
    """

    values: Mapping[Key, Any] = field(default_factory=dict)
    launches: Mapping[Key, Sequence[Any]] = field(default_factory=dict)
    advice: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    hot_only: frozenset[Key] = frozenset()
    other_algorithm: Mapping[Key, str] = field(default_factory=dict)

    @cached_property
    def of(self) -> Mapping[int, Mapping[str, Any]]:
        """Return trial's number → metric → value, of the trials that have any."""
        of_trials = grouped(self.values.items(), lambda item: item[0][0])
        return {trial: {metric: row for (_, metric), row in items} for trial, items in of_trials.items()}

    def value_of(self, trial: int, metric: str) -> float | None:
        """Return a trial's value of a metric, None where it has no number."""
        row = self.values.get((trial, metric))
        return None if row is None or math.isnan(row.value) else row.value

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
        return HOT_ONLY if key in self.hot_only else row.text if row else ""

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
        short = [each if len(each) <= MOST_LAUNCHES else [*each[:2], f"… {each[-1]}"] for _, each in kernels]
        return ", ".join(f"{kernel} {'; '.join(texts)}" for (kernel, _), texts in zip(kernels, short, strict=True))


def read_counters(connection: Connection, sweep_id: int, trials: pd.DataFrame) -> Counters:
    """Return the counters of a sweep's trials, all of one mode: cold where any trial has a cold one, as the times are.

    For the same reason counters taken with locked clocks are left out where others are there, and those of a library's
    other algorithm than the timed one always. Ratios of nothing have no value. A trial profiled several times in that
    mode keeps, of each metric, its newest value.
    """
    every = stored.read_counters(connection, sweep_id)
    if every.empty:
        return Counters()
    profiles = stored.read_profile_durations(connection, sweep_id)
    others = find_other_algorithms(trials, profiles[profiles["clock_control"].isin(UNLOCKED)])
    is_other = every["profile_id"].isin(others)
    counters = blank_undefined(every[~is_other], "profile_id")
    counters = _prefer(counters, counters["clock_control"].isin(UNLOCKED))
    in_mode = _prefer(counters, counters["cache_mode"] == "cold")
    in_order = in_mode.sort_values(["trial_id", "metric", "profile_id"])
    newest = in_order.drop_duplicates(["trial_id", "metric"], keep="last")
    values = dict(zip(_keys(newest), newest.itertuples(), strict=True))
    launches = stored.read_counters(connection, sweep_id, by_launch=True).merge(newest[["profile_id", "metric"]])
    launches = blank_undefined(launches, "profile_id", "ordinal")
    advice = stored.read_advice(connection, sweep_id)
    advice = advice[advice["profile_id"].isin(in_mode["profile_id"])]
    advice = advice[advice["profile_id"] == advice.groupby("trial_id")["profile_id"].transform("max")]
    left_out = every[is_other & (every["cache_mode"].isin(in_mode["cache_mode"]) | counters.empty)]
    why = dict(zip(_keys(left_out), left_out["profile_id"].map(others), strict=True))
    return Counters(
        values,
        grouped(launches.itertuples(), lambda row: (row.trial_id, row.metric)),
        grouped(advice.itertuples(), lambda row: row.trial_id),
        frozenset(_keys(counters)) - frozenset(values),
        {key: durations for key, durations in why.items() if key not in values},
    )


def _prefer(counters: pd.DataFrame, wanted: pd.Series[bool]) -> pd.DataFrame:
    return counters[wanted] if wanted.any() else counters


def _keys(counters: pd.DataFrame) -> Iterable[Key]:
    return zip(counters["trial_id"], counters["metric"], strict=True)


def find_other_algorithms(trials: pd.DataFrame, profiles: pd.DataFrame) -> dict[int, str]:
    """Return the profiles (by number, with clocks as when timing) of library calls that took another algorithm.

    The evidence stands beside each: the launches' summed duration under Nsight Compute, and the median without it.

    Args:
        profiles: rows of `read_profile_durations`.
    """
    libraries = trials[trials["kind"] == "library"].set_index("id")
    medians = {mode: libraries[f"{mode}_ns"].dropna().to_dict() for mode in ("cold", "hot")}
    found = {}
    rows: Any = profiles[profiles["duration_ns"] > SHORT_NS].itertuples()
    for profile in rows:
        timed_ns = medians.get(profile.cache_mode, {}).get(profile.trial_id, 0.0)
        if timed_ns > 0 and not 1 / FACTOR <= profile.duration_ns / timed_ns <= FACTOR:
            profiled, timed = (format_value("time", each) for each in (profile.duration_ns, timed_ns))
            found[profile.profile_id] = f"{profiled} under Nsight Compute, {timed} timed"
    return found


def blank_undefined(counters: pd.DataFrame, *together: str) -> pd.DataFrame:
    """Return the counters without the ratios whose weight is zero: no value, and `text` says what was not counted.

    Args:
        together: columns that say what a counter was counted together with: its profile, or its launch.
    """
    weights = counters["rollup"].map(lambda rule: rule.partition(":")[2])
    zeros = counters.loc[counters["value"] == 0, [*together, "metric"]]
    own = pd.MultiIndex.from_frame(counters[[*together]].assign(metric=weights))
    is_undefined = own.isin(pd.MultiIndex.from_frame(zeros))
    absences = {name: METRICS[name].absence if name in METRICS else "" for name in weights[is_undefined]}
    texts = weights.map(lambda name: absences.get(name) or f"{name} is 0")
    text = counters["text"].mask(is_undefined, texts)
    return counters.assign(value=counters["value"].mask(is_undefined), text=text)
