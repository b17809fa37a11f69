"""The trials of a study: the stored facts of each, and the figures that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.core.text import count
from cuprof.report.units import point_label
from cuprof.statistics import Samples, is_mere_range, sure_time

RANKING = (Measure.COLD, Measure.HOT)
"""The measures that trials are ranked by: the first that a trial has."""
WIDEST = 0.2
"""Times whose intervals reach further than this from the median are marked wherever a speed-up rests on them."""
KINDS = ("kernel", "library", "cpu")
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Measured:
    """The samples of a right trial.

    Args:
        measures: those with a sample that has a logarithm.
        on_host: its device is the host's processor.
        read: return the samples of one of the measures, one series.
    """

    measures: frozenset[Measure]
    on_host: bool
    read: Callable[[Measure], Samples]


class Timed(NamedTuple):
    """One measure of a trial, named as the columns of the results frame; energies are NaN where none was measured.

    Args:
        energy_unavailable: why there is no energy although it was asked for, or the empty text.
    """

    samples: int
    excluded: int
    median_ns: float
    low_ns: float
    high_ns: float
    confidence: float
    q1_ns: float
    q3_ns: float
    stopped_by: str
    energy_j: float = math.nan
    mean_w: float = math.nan
    idle_w: float = math.nan
    energy_unavailable: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the median in ns; None of samples too few for one, whose bounds are their range."""
        if is_mere_range(self.samples, self.confidence) or math.isnan(self.low_ns + self.high_ns):
            return None
        return self.low_ns, self.high_ns


@dataclass(eq=False, kw_only=True)
class StudyTrial:
    """One trial of a sweep as a study speaks of it.

    Args:
        id: the trial's number; `ordinal` is its place in the sweep and `order` its variant's in the family.
        run_id, run_sweep_id: the run that the sweep goes by and the sweep that made it, 0 before there is one.
        started_at: of that run, seconds since the epoch; None where it is not known.
        job: equal for what was measured in one job; empty where that is not known.
        log: the longer text behind `message`.
        registers: a thread.
        check_error: the largest error / allowed; None where nothing can be said.
        timings: those with a median.
        contender: the variant, with its device where it ran on several.
        device: label of the study's device, empty for a trial without one.
        problem_name: the study's name of its problem, else the problem's coordinates.
        read_bandwidth: of its device as measured, bytes a second.
        theoretical_bandwidth: of its device by its data sheet, bytes a second.
        entry: what `cuprof compare` knows of its times, None where it knows none.
    """

    id: int
    ordinal: int
    identity: str
    family: str
    variant: str
    order: int
    kind: str
    backend: str
    expected: str
    origin: str
    problem: Point
    tunables: Point
    useful_bytes: float | None
    flops: float | None
    state: State
    message: str
    run_id: int
    run_sweep_id: int
    sweep_id: int
    started_at: float | None
    job: str
    log: str
    registers: float | None
    check_error: float | None
    timings: Mapping[Measure, Timed]
    contender: str
    problem_name: str
    device: str = ""
    read_bandwidth: float | None = None
    theoretical_bandwidth: float | None = None
    entry: Measured | None = None

    @property
    def is_expected_wrong(self) -> bool:
        """Return whether its variant is kept as known wrong."""
        return self.expected == "wrong"

    @property
    def tunables_label(self) -> str:
        """Return its tunables for people, empty without any."""
        return point_label(self.tunables)

    @property
    def setting(self) -> str:
        """Return contender and tunables for a sentence."""
        return f"{self.contender} with {self.tunables_label}" if self.tunables else self.contender

    @cached_property
    def measure(self) -> Measure | None:
        """Return the measure that it is ranked by, None where it was not timed."""
        return next((measure for measure in RANKING if measure in self.timings), None)

    @cached_property
    def timing(self) -> Timed | None:
        """Return the timing that it is ranked by."""
        return self.timings[self.measure] if self.measure else None

    @cached_property
    def median_ns(self) -> float | None:
        """Return the median of the measure that it is ranked by."""
        return self.timing.median_ns if self.timing else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of that median in ns, None where there is none."""
        return self.timing.interval if self.timing else None

    @property
    def few_samples(self) -> str:
        """Return how many samples that median is of where they are too few for an interval, else the empty text."""
        return count(self.timing.samples, "sample") if self.timing and not self.interval else ""

    @cached_property
    def sure_ns(self) -> float:
        """Return the time that counts when the fastest is chosen (see `sure_time`), infinite without one."""
        if not (timing := self.timing):
            return math.inf
        return sure_time(timing.median_ns, timing.high_ns, timing.samples, timing.confidence)

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
        return self.run_sweep_id not in (0, self.sweep_id)

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
    def energy(self) -> Timed | None:
        """Return the timing with the energy of one execution: that of the measure that was taken first."""
        return next((timing for timing in self.timings.values() if not math.isnan(timing.energy_j)), None)

    @property
    def energy_j(self) -> float | None:
        """Return the energy of one execution."""
        return self.energy.energy_j if self.energy else None

    @property
    def mean_w(self) -> float | None:
        """Return the mean power."""
        return self.energy.mean_w if self.energy else None

    @property
    def energy_unavailable(self) -> str:
        """Return why there is no energy although it was asked for, or the empty text."""
        return next((timing.energy_unavailable for timing in self.timings.values() if timing.energy_unavailable), "")

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

    def median_of(self, measure: Measure) -> float | None:
        """Return the median of one measure in ns, None where it was not taken."""
        return self.timings[measure].median_ns if measure in self.timings else None


def by_time(trial: StudyTrial) -> float:
    """Return a key that sorts trials by time, those without a time last."""
    median_ns = trial.median_ns
    return math.inf if median_ns is None else median_ns


def by_sure_time(trial: StudyTrial) -> float:
    """Return a key that sorts trials by the time that counts."""
    return trial.sure_ns


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
