"""Read what a profiler said of a sweep's trials, in one cache mode: the newest value of each trial and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy.engine import Connection

from cuprof.report.library_profiles import OtherAlgorithm, find_other_algorithms
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.undefined_ratios import blank_undefined
from cuprof.results.counters import (
    LaunchAdvice,
    LaunchCounter,
    TrialCounter,
    list_advice,
    list_launch_counters,
    list_profile_durations,
    list_trial_counters,
)

UNLOCKED = ("none", "")
"""Clock controls of Nsight Compute that leave the clocks alone, or that nobody knows."""

Key = tuple[int, str]
"""A trial's number and a metric."""


@dataclass(frozen=True)
class Counters:
    """What is stored of some trials, all of one cache mode: what a cold and a hot one differ in is the caches.

    Args:
        launches: launch by launch what the values were rolled up from.
        advice: trial's number → the profiler's own words.
        hot_only: left out of a study of cold ones, as only hot ones are stored.
        other_algorithm: left out because the library took another algorithm under the profiler than was timed → the
            durations that show it.
    """

    values: Mapping[Key, TrialCounter] = field(default_factory=dict)
    launches: Mapping[Key, Sequence[LaunchCounter]] = field(default_factory=dict)
    advice: Mapping[int, Sequence[LaunchAdvice]] = field(default_factory=dict)
    hot_only: frozenset[Key] = frozenset()
    other_algorithm: Mapping[Key, OtherAlgorithm] = field(default_factory=dict)

    def of(self, trial: StudyTrial) -> Mapping[str, TrialCounter]:
        """Return metric → value of one trial."""
        return self._by_trial.get(trial.id, {})

    def value_of(self, trial: StudyTrial, metric: str) -> float | None:
        """Return a trial's value of a metric, None where it has no number."""
        row = self.of(trial).get(metric)
        return row.value if row else None

    def unit_of(self, metric: str) -> str:
        """Return the unit that a metric is stored in, empty for none."""
        return next((row.unit for row in self.values.values() if row.metric == metric and row.unit), "")

    @property
    def mode(self) -> str:
        """Return the mode that all of them are of: "cold" or "hot", empty without any."""
        return next((row.cache_mode for row in self.values.values()), "")

    @cached_property
    def _by_trial(self) -> dict[int, dict[str, TrialCounter]]:
        of_trials = grouped(self.values.items(), lambda item: item[0][0])
        return {trial: {metric: row for (_, metric), row in items} for trial, items in of_trials.items()}


def read_counters(connection: Connection, sweep_id: int, trials: Sequence[StudyTrial]) -> Counters:
    """Return the counters of a sweep's trials, all of one mode: cold where any trial has a cold one, as the times are.

    For the same reason counters taken with locked clocks are left out where others are there, and those of a library's
    other algorithm than the timed one always. Ratios of nothing have no value (`cuprof.report.undefined_ratios`).

    A trial profiled several times in that mode keeps, of each metric, its newest value.
    """
    stored = list_trial_counters(connection, sweep_id)
    if not stored:
        return Counters()
    unlocked = [row for row in list_profile_durations(connection, sweep_id) if row.clock_control in UNLOCKED]
    others = find_other_algorithms(trials, unlocked)
    counters = blank_undefined(
        [row for row in stored if row.profile_id not in others], lambda row: (row.profile_id, row.metric)
    )
    if any(row.clock_control in UNLOCKED for row in counters):
        counters = [row for row in counters if row.clock_control in UNLOCKED]
    mode = "cold" if any(row.cache_mode == "cold" for row in counters) else "hot"
    in_mode = [row for row in counters if row.cache_mode == mode]
    in_mode.sort(key=lambda row: (row.trial_id, row.metric, row.profile_id))
    values = {(row.trial_id, row.metric): row for row in in_mode}  # the newest profile's
    chosen = {(row.profile_id, row.metric) for row in values.values()}
    launches = [row for row in list_launch_counters(connection, sweep_id) if (row.profile_id, row.metric) in chosen]
    profiles = {row.profile_id for row in counters}
    advice = [row for row in list_advice(connection, sweep_id) if row.profile_id in profiles and row.cache_mode == mode]
    return Counters(
        values,
        grouped(
            blank_undefined(launches, lambda row: (row.profile_id, row.ordinal, row.metric)),
            lambda row: (row.trial_id, row.metric),
        ),
        {trial: _of_newest_profile(rows) for trial, rows in grouped(advice, lambda row: row.trial_id).items()},
        frozenset((row.trial_id, row.metric) for row in counters) - frozenset(values),
        {
            (row.trial_id, row.metric): others[row.profile_id]
            for row in stored
            if row.profile_id in others
            and (row.trial_id, row.metric) not in values
            and (row.cache_mode == mode or not counters)
        },
    )


def _of_newest_profile(advice: Sequence[LaunchAdvice]) -> list[LaunchAdvice]:
    newest = max(row.profile_id for row in advice)
    return [row for row in advice if row.profile_id == newest]
