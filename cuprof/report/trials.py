"""The trials of a study: rows of its frame as objects, for sentences about single trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.core.text import count
from cuprof.report.units import choose_scale

RANKING = (Measure.COLD, Measure.HOT)
"""The measures that trials are ranked by: the first that a trial has."""
WIDEST = 0.2
"""Times with intervals wider than ± this share of the median are marked wherever a speed-up rests on them."""
KINDS = ("kernel", "library", "cpu")
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Timed(NamedTuple):
    """One measure of a trial, named as the columns of the results frame; samples too few for an interval have none."""

    samples: int
    excluded: int
    median_ns: float
    low_ns: float
    high_ns: float
    q1_ns: float
    q3_ns: float
    stopped_by: str

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the median in ns, None where there is none."""
        return None if math.isnan(self.low_ns + self.high_ns) else (self.low_ns, self.high_ns)


@dataclass(eq=False, kw_only=True, slots=True)
class StudyTrial:
    """One trial of a sweep: a row of the study's frame, whose columns have these names. Unknown values are None.

    `read_results` says what it gives; `id` is its `trial_id`, and `order` its `variant_order`. Beside it there are:

    Args:
        log: the longer text behind `message`.
        registers: a thread.
        check_error: the largest error / allowed.
        contender: the variant, with its device where it ran on several.
        device: label of the study's device, empty for a trial without one; `on_host`: it is the host's processor.
        problem_name: the study's name of its problem, else the problem's coordinates.
        is_right: it may be ranked: checked, right, timed, and of a variant that is meant to be right.
        is_reused: an earlier sweep measured it.
        measure: the one that it is ranked by; `median_ns` is of it.
        sure_ns: the time that counts when the fastest is chosen (see `sure_time`), infinite without one.
        total_ns: with transfers; a variant on the host has none to make.
        sampled: those of the ranking measures that it has samples of, so that it can be compared by them.
        bandwidth: useful bytes a second; `rate`: useful operations a second.
        share, theoretical_share: of the bandwidth, of its device's as measured and by its data sheet.
        energy_j: of one execution; `energy_unavailable` says why there is none although it was asked for.
        timings: those with a median.
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
    state: State
    message: str
    log: str
    run_id: int
    run_sweep_id: int
    started_at: float | None
    job: str
    registers: float | None
    check_error: float | None
    contender: str
    device: str
    on_host: bool
    problem_name: str
    is_right: bool
    is_reused: bool
    measure: Measure | None
    median_ns: float | None
    sure_ns: float
    cold_ns: float | None
    hot_ns: float | None
    total_ns: float | None
    sampled: tuple[Measure, ...]
    useful_bytes: float | None
    flops: float | None
    bandwidth: float | None
    rate: float | None
    share: float | None
    theoretical_share: float | None
    energy_j: float | None
    mean_w: float | None
    idle_w: float | None
    energy_unavailable: str
    timings: Mapping[Measure, Timed]

    @property
    def is_expected_wrong(self) -> bool:
        """Return whether its variant is kept as known wrong."""
        return self.expected == "wrong"

    @property
    def is_expected(self) -> bool:
        """Return whether it came out wrong as it should."""
        return self.state is State.WRONG_RESULT and self.is_expected_wrong

    @property
    def setting(self) -> str:
        """Return contender and tunables for a sentence."""
        return f"{self.contender} with {self.tunables.label}" if self.tunables else self.contender

    @property
    def timing(self) -> Timed | None:
        """Return the timing that it is ranked by."""
        return self.timings[self.measure] if self.measure else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the median that it is ranked by in ns, None where there is none."""
        return self.timing.interval if self.timing else None

    @property
    def few_samples(self) -> str:
        """Return how many samples that median is of where they are too few for an interval, else the empty text."""
        return count(self.timing.samples, "sample") if self.timing and not self.interval else ""

    @property
    def half_width(self) -> float:
        """Return half the width of that interval as a share of the median, 0 where there is no interval."""
        return (self.interval[1] - self.interval[0]) / 2 / self.median_ns if self.interval and self.median_ns else 0.0

    @property
    def doubt(self) -> str:
        """Return "±58 %" of a time whose interval is too wide for a speed-up without a mark, else the empty text."""
        return f"±{self.half_width * 100:.0f}\N{NO-BREAK SPACE}%" if self.half_width > WIDEST else ""

    @property
    def bounds(self) -> tuple[str, ...]:
        """Return the ends of that interval as text, in the unit of the lower one; nothing without an interval."""
        scale = choose_scale("time", (self.interval or ())[:1])
        return tuple(map(scale.format, self.interval or ()))

    @property
    def timed(self) -> str:
        """Return that median for a sentence, with its interval or how few samples it is of."""
        scale = choose_scale("time", [self.interval[0] if self.interval else self.median_ns])
        known_by = f" [{', '.join(self.bounds)}]" if self.interval else f" from {self.few_samples}"
        return scale.format(self.median_ns, unit=True) + (known_by if self.timing else "")


def by_time(trial: StudyTrial) -> float:
    """Return a key that sorts trials by time, those without a time last."""
    return math.inf if trial.median_ns is None else trial.median_ns


def rank_of(kind: str) -> int:
    """Return the place of a kind among the kinds of variants."""
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by key, keys and items in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
