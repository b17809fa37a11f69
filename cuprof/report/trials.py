"""The trials of a study: what is stored of each, and the figures that follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cuprof.comparison.entries import Entry
from cuprof.core.point import Point
from cuprof.core.records import ENERGY_UNAVAILABLE, Energy, Measure, State, Summary
from cuprof.core.text import count
from cuprof.report.units import point_label
from cuprof.results.trials import TimingRow, TrialRow
from cuprof.statistics import is_mere_range, sure_time

RANKING = (Measure.COLD, Measure.HOT)
"""The measures that trials are ranked by: the first that a trial has."""
WIDEST = 0.2
"""Times whose intervals reach further than this from the median are marked wherever a speed-up rests on them."""
KINDS = ("kernel", "library", "cpu")
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def interval_of(summary: Summary) -> tuple[float, float] | None:
    """Return the interval of a median in ns; None of samples too few for one, whose bounds are merely their range."""
    if is_mere_range(summary.count, summary.confidence) or math.isnan(summary.low_ns + summary.high_ns):
        return None
    return summary.low_ns, summary.high_ns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyTrial(TrialRow):
    """One trial of a sweep as a study speaks of it; its timings are those with a median.

    Args:
        contender: the variant, with its device where it ran on several.
        device: label of the study's device, empty for a trial without one.
        problem_name: the study's name of its problem, else the problem's coordinates.
        read_bandwidth: of its device as measured, bytes a second.
        theoretical_bandwidth: of its device by its data sheet, bytes a second.
        entry: the trial as `cuprof compare` knows it, with its samples.
    """

    contender: str
    problem_name: str
    device: str = ""
    read_bandwidth: float | None = None
    theoretical_bandwidth: float | None = None
    entry: Entry | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def tunables_label(self) -> str:
        """Return its tunables for people, empty without any."""
        return point_label(self.tunables)

    @property
    def setting(self) -> str:
        """Return contender and tunables for a sentence."""
        return f"{self.contender} with {self.tunables_label}" if self.tunables else self.contender

    @property
    def measure(self) -> Measure | None:
        """Return the measure that it is ranked by, None where it was not timed."""
        return next((measure for measure in RANKING if measure in self.timings), None)

    @property
    def timing(self) -> TimingRow | None:
        """Return the timing that it is ranked by."""
        return self.timings.get(Measure.COLD) or self.timings.get(
            Measure.HOT
        )  # as `RANKING` says, in a tenth of the time

    @property
    def median_ns(self) -> float | None:
        """Return the median of the measure that it is ranked by."""
        timing = self.timing
        return timing.summary.median_ns if timing else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of that median in ns, None where there is none."""
        return interval_of(self.timing.summary) if self.timing else None

    @property
    def few_samples(self) -> str:
        """Return how many samples that median is of where they are too few for an interval, else the empty text."""
        return count(self.timing.summary.count, "sample") if self.timing and not self.interval else ""

    @property
    def half_width(self) -> float | None:
        """Return half the width of that interval as a share of the median, None where there is no interval."""
        return (self.interval[1] - self.interval[0]) / 2 / self.median_ns if self.interval and self.median_ns else None

    @property
    def doubt(self) -> str:
        """Return "±58 %" of a time whose interval is too wide for a speed-up without a mark, else the empty text."""
        width = self.half_width or 0.0
        return f"±{width * 100:.0f}\N{NO-BREAK SPACE}%" if width > WIDEST else ""

    @property
    def is_reused(self) -> bool:
        """Return whether an earlier sweep measured it."""
        return self.run is not None and self.run.sweep_id != self.sweep_id

    @property
    def energy(self) -> Energy | None:
        """Return the energy of one execution; it is stored with the measure that was taken first."""
        return next((timing.energy for timing in self.timings.values() if timing.energy), None)

    @property
    def energy_unavailable(self) -> str:
        """Return why there is no energy although it was asked for, or the empty text."""
        reasons = (str(timing.details.get(ENERGY_UNAVAILABLE) or "") for timing in self.timings.values())
        return next(filter(None, reasons), "")

    @property
    def log(self) -> str:
        """Return the longer text behind its message."""
        return self.run.log if self.run else ""

    @property
    def registers(self) -> int | None:
        """Return the registers a thread."""
        return self.run.build.registers if self.run and self.run.build else None

    @property
    def check_error(self) -> float | None:
        """Return the largest error / allowed, None where nothing can be said."""
        check = self.run.check if self.run else None
        return None if check is None or math.isnan(check.error) else check.error

    @property
    def bandwidth(self) -> float | None:
        """Return useful bytes a second."""
        return self.useful_bytes / self.median_ns * 1e9 if self.useful_bytes and self.median_ns else None

    @property
    def rate(self) -> float | None:
        """Return useful operations a second."""
        return self.flops / self.median_ns * 1e9 if self.flops and self.median_ns else None

    @property
    def share(self) -> float | None:
        """Return the bandwidth as a share of its device's measured read bandwidth."""
        return self.bandwidth / self.read_bandwidth if self.bandwidth and self.read_bandwidth else None

    @property
    def theoretical_share(self) -> float | None:
        """Return the bandwidth as a share of the one in its device's data sheet."""
        peak = self.theoretical_bandwidth
        return self.bandwidth / peak if self.bandwidth and peak else None

    @property
    def is_right(self) -> bool:
        """Return whether it may be ranked: checked, right, timed, and of a variant that is meant to be right."""
        return self.state is State.OK and not self.is_expected_wrong and self.timing is not None

    @property
    def is_expected(self) -> bool:
        """Return whether it came out wrong as it should."""
        return self.state is State.WRONG_RESULT and self.is_expected_wrong

    @property
    def cold_ns(self) -> float | None:
        """Return the median of the cold times."""
        return self.median_of(Measure.COLD)

    @property
    def hot_ns(self) -> float | None:
        """Return the median of the hot times."""
        return self.median_of(Measure.HOT)

    @property
    def total_ns(self) -> float | None:
        """Return the median of the times with transfers; a variant on the host has none to make."""
        total_ns = self.median_of(Measure.TOTAL)
        return self.median_ns if total_ns is None and self.backend == "cpu" else total_ns

    @property
    def energy_j(self) -> float | None:
        """Return the energy of one execution."""
        return self.energy.energy_j if self.energy else None

    @property
    def mean_w(self) -> float | None:
        """Return the mean power."""
        return self.energy.mean_w if self.energy else None

    def median_of(self, measure: Measure) -> float | None:
        """Return the median of one measure in ns, None where it was not taken."""
        return self.timings[measure].summary.median_ns if measure in self.timings else None


def by_time(trial: StudyTrial) -> float:
    """Return the key by which trials sort, the fastest first and those without a time last."""
    median_ns = trial.median_ns
    return math.inf if median_ns is None else median_ns


def by_sure_time(trial: StudyTrial) -> float:
    """Return the key by which the fastest is told; see `sure_time`."""
    if not (timing := trial.timing):
        return math.inf
    summary = timing.summary
    return sure_time(summary.median_ns, summary.high_ns, summary.count, summary.confidence)


def by_kind(trials: Iterable[StudyTrial]) -> list[StudyTrial]:
    """Return the trials with kernels before libraries before CPU variants, each in the family's order."""
    ranks = {kind: rank for rank, kind in enumerate(KINDS)}
    return sorted(trials, key=lambda trial: (ranks.get(trial.kind, len(KINDS)), trial.order))


def best_of_tunables(trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """Return the fastest trial of every contender and problem, in the family's order."""
    best: dict[tuple[str, Point], tuple[float, StudyTrial]] = {}
    for trial in trials:
        key, time = (trial.contender, trial.problem), by_sure_time(trial)
        if key not in best or time < best[key][0]:
            best[key] = time, trial
    chosen = {trial for _, trial in best.values()}
    return sorted((trial for trial in trials if trial in chosen), key=lambda trial: trial.order)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by key, keys and items in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
