"""A study: one sweep as frames that tables, figures and verdicts are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from cuprof.analysis.experiment import Experiment
from cuprof.analysis.intervals import drop_mere_ranges
from cuprof.analysis.library_profiles import OtherAlgorithm
from cuprof.analysis.published import PublishedValue
from cuprof.analysis.ratio import Ratio, ratio_of_medians
from cuprof.config.model import MeasureConfig
from cuprof.point import Point

FINISHED = ("finished", "complete")


def choose_baseline(configuration: Mapping[str, Any], experiment: Experiment, of_family: str) -> str:
    """Return the variant that others are compared with: the one the sweep was told, the study's, else the family's."""
    return str(configuration.get("baseline") or "") or experiment.baseline or of_family


@dataclass(frozen=True)
class Sweep:
    """What is known of the sweep: see `cuprof.records.SweepFacts`. Times are ISO 8601, UTC.

    Args:
        earlier_finished: number of the newest earlier sweep of the same experiment that was finished.
    """

    id: int
    name: str
    experiment: str
    family: str
    baseline: str
    command_line: str
    configuration: Mapping[str, Any]
    host: str
    git: Mapping[str, Any]
    software: Mapping[str, str]
    state: str
    started_at: str
    finished_at: str
    database: str = ""
    earlier_finished: int | None = None

    @property
    def is_finished(self) -> bool:
        """Return whether every trial of it has had its turn."""
        return self.state in FINISHED


@dataclass(frozen=True)
class Device:
    """One device of the sweep.

    Args:
        label: unique among the sweep's devices.
        read_bandwidth: bytes a second as measured at the start of the sweep, the roof; None where it was not measured.
    """

    label: str
    backend: str
    name: str
    identity: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    memory_bytes: int = 0
    read_bandwidth: float | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Hold everything a page says of one sweep; nothing in it needs the database any more.

    Attributes:
        trials: one row a trial of the sweep, in its order; `cuprof.analysis.trials` documents the columns. Bounds of a
            time are NaN where its samples are too few for an interval at the study's level.
        samples: counted samples of the trials at the reference problem: trial_id, round, duration_ns.
        reference: the problem at which variants are compared.
        reference_note: why that problem, when it is not the study's own.
        counters: one row a trial and counter: trial_id, metric, unit, value, cache_mode; empty without any. All are of
            one cache mode: what a cold counter and a hot one differ in is the caches, not the trials.
        launches: the same launch by launch: trial_id, ordinal, kernel, metric, unit, value.
        findings: Nsight's own: trial_id, kernel, rule, severity, text.
        hot_only: (trial_id, metric) of the counters left out of a study of cold ones, as only hot ones are stored.
        other_algorithm: (trial_id, metric) of the counters left out because the library took another algorithm under
            the profiler than was timed → the durations that show it.
    """

    experiment: Experiment
    sweep: Sweep
    devices: tuple[Device, ...]
    trials: pd.DataFrame
    samples: pd.DataFrame
    reference: Point
    reference_note: str = ""
    published: tuple[PublishedValue, ...] = ()
    counters: pd.DataFrame = field(default_factory=pd.DataFrame)
    launches: pd.DataFrame = field(default_factory=pd.DataFrame)
    findings: pd.DataFrame = field(default_factory=pd.DataFrame)
    hot_only: frozenset[tuple[int, str]] = frozenset()
    other_algorithm: Mapping[tuple[int, str], OtherAlgorithm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", drop_mere_ranges(self.trials, self.confidence))

    @property
    def confidence(self) -> float:
        """Return the level of the intervals of medians, as the sweep asked for it."""
        settings = self.sweep.configuration.get("measure") or {}
        return float(settings.get("confidence", MeasureConfig.confidence))

    @property
    def title(self) -> str:
        """Return the page's heading."""
        return self.experiment.title or self.sweep.experiment or self.sweep.name or self.sweep.family

    @property
    def cache_mode(self) -> str:
        """Return the mode that all counters are of: "cold" or "hot", empty without any."""
        return "" if self.counters.empty else str(self.counters.iloc[0]["cache_mode"])

    @cached_property
    def right(self) -> pd.DataFrame:
        """Return the trials that may be ranked: checked, right, timed, and of a variant that is meant to be right."""
        trials = self.trials
        return trials[(trials["state"] == "ok") & (trials["expected"] != "wrong") & trials["time_ns"].notna()]

    @cached_property
    def best(self) -> pd.DataFrame:
        """Return the fastest choice of tunables of every contender at the reference problem, in the family's order."""
        return best_of_tunables(self.right[self.right["problem"] == self.reference])

    @cached_property
    def baseline(self) -> str:
        """Return the variant that others are compared with, whether it ran or not."""
        return choose_baseline(self.sweep.configuration, self.experiment, self.sweep.baseline)

    @cached_property
    def stand_in(self) -> str:
        """Return the contender that stands in for a baseline without a right result here, or the empty text."""
        if self.best.empty or self.baseline in set(self.best["variant"]):
            return ""
        return str(self.best.iloc[0]["contender"])

    @cached_property
    def libraries(self) -> pd.DataFrame:
        """Return the library variants among `best`, the fastest first."""
        named = self.best["variant"].isin(self.experiment.libraries)
        chosen = self.best[named if self.experiment.libraries else self.best["kind"] == "library"]
        return chosen.sort_values("time_ns", kind="stable")

    def device(self, label: str) -> Device | None:
        """Return the device of that label, None for a trial without one."""
        return next((device for device in self.devices if device.label == label), None)

    def baseline_row(self, trial: Mapping[Any, Any]) -> Mapping[Any, Any] | None:
        """Return the baseline's best trial at this trial's problem, on the same device where there is one."""
        name = self.stand_in or self.baseline
        key = "contender" if self.stand_in else "variant"
        rows = self.right[(self.right[key] == name) & (self.right["problem"] == trial["problem"])]
        if rows.empty:
            return None
        same = rows[rows["device"] == trial["device"]]
        chosen = same if not same.empty else rows
        return dict(chosen.loc[chosen["time_ns"].idxmin()])

    def ratio(self, slower: Mapping[Any, Any], faster: Mapping[Any, Any]) -> Ratio:
        """Return how many times as long the first trial took as the second, with an interval where samples are held."""
        first = self.samples[self.samples["trial_id"] == slower["trial_id"]]
        second = self.samples[self.samples["trial_id"] == faster["trial_id"]]
        if first.empty or second.empty or slower["trial_id"] == faster["trial_id"]:
            nothing = float("nan")
            return Ratio(float(slower["time_ns"]) / float(faster["time_ns"]), nothing, nothing, False)
        return ratio_of_medians(first, second, paired=_measured_together(slower, faster))


def extreme(frame: pd.DataFrame, column: str, *, largest: bool = False) -> dict[str, Any]:
    """Return the row with the smallest (or largest) value of a column; of equal ones the first."""
    chosen = frame.sort_values(column, ascending=not largest, kind="stable").iloc[0]
    return {str(name): value for name, value in chosen.to_dict().items()}


def best_of_tunables(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trial with the shortest time for every contender and problem, in the order of the trials."""
    if trials.empty:
        return trials
    chosen = trials.groupby(["contender", "problem_label"], sort=False)["time_ns"].idxmin()
    return trials.loc[sorted(chosen)].sort_values("order", kind="stable")


def _measured_together(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Return whether round numbers of two runs mean the same moments."""
    return bool(one["rotation"]) and one["rotation"] == other["rotation"]
