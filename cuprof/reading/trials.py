"""Trials of sweeps with the runs that the sweeps go by, and the summaries of their timings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.point import Point
from cuprof.reading.intact import intact
from cuprof.records import BuildFacts, Check, Energy, Measure, State, Summary, Unavailable
from cuprof.store.models import Problem, Run, SweepTrial, Timing, Trial, Variant


@dataclass(frozen=True, slots=True)
class TimingRow:
    """One measure of one run; its samples are read by `id` (`cuprof.reading.samples`).

    Args:
        method, stopped_by, details, rotation, energy: as in `cuprof.records.Timing`.
    """

    id: int
    run_id: int
    measure: Measure
    method: str
    stopped_by: str
    summary: Summary
    details: Mapping[str, Any]
    rotation: str
    energy: Energy | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a trial.

    Args:
        sweep_id: the sweep that made it, which may be an earlier one than that which goes by it.
        started_at: seconds since the epoch, None where it is not known.
        job: equal for what was measured in one job; empty where that is not known.
    """

    id: int
    sweep_id: int
    device_id: int | None
    state: State
    phase: str
    message: str
    log: str
    started_at: float | None
    duration_ns: int
    check: Check | None
    build: BuildFacts | None
    job: str = ""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial as a member of one sweep.

    Args:
        ordinal: its place in the sweep.
        order: its variant's place in the family.
        device_id: of the run, else the one that it was planned for; None without one.
        run: the run that the sweep goes by; None before there is one.
        timings: of that run; of two methods in one run, the later one.
    """

    id: int
    sweep_id: int
    ordinal: int
    identity: str
    label: str
    family: str
    variant: str
    order: int
    kind: str
    backend: str
    expected: str
    description: str
    origin: str
    problem: Point
    tunables: Point
    useful_bytes: int | None
    flops: int | None
    device_id: int | None
    unavailable: Unavailable | None
    run: RunRow | None
    timings: Mapping[Measure, TimingRow]

    @property
    def state(self) -> State:
        """Return what became of it in this sweep."""
        if self.run is not None:
            return self.run.state
        return State.SKIPPED if self.unavailable else State.PLANNED

    @property
    def message(self) -> str:
        """Return what happened to it, empty where nothing did."""
        return self.run.message if self.run is not None else str(self.unavailable or "")

    @property
    def is_expected_wrong(self) -> bool:
        """Return whether its variant is kept as known wrong."""
        return self.expected == "wrong"


@intact
def list_trials(connection: Connection, sweep_ids: Sequence[int], variants: Collection[str] = ()) -> list[TrialRow]:
    """Return the trials of some sweeps: sweep by sweep in the order given, each in its own order.

    Args:
        variants: only those of these names, all when empty.
    """
    chosen = [SweepTrial.sweep_id.in_(sweep_ids), *([Variant.name.in_(variants)] if variants else [])]
    families = {
        row.id: row for row in connection.execute(_VARIANTS.where(Variant.id.in_(_of(Trial.variant_id, chosen))))
    }
    points = connection.execute(_PROBLEMS.where(Problem.id.in_(_of(Trial.problem_id, chosen))))
    problems = {key: Point(coordinates) for key, coordinates in points}
    timings: dict[int, dict[Measure, TimingRow]] = {}
    for row in connection.execute(_TIMINGS.where(Timing.run_id.in_(_of(SweepTrial.run_id, chosen)))):
        timings.setdefault(row.run_id, {})[Measure(row.measure)] = _timing(row)
    found: dict[int, list[TrialRow]] = {sweep_id: [] for sweep_id in sweep_ids}
    for row in connection.execute(_MEMBERS.where(*chosen)):
        trial = _trial(row, families[row.variant_id], problems[row.problem_id], timings.get(row.run_id, {}))
        found[row.sweep_id].append(trial)
    return [trial for trials in found.values() for trial in trials]


def list_variant_names(connection: Connection, sweep_ids: Collection[int]) -> list[str]:
    """Return the names of the variants that are members of these sweeps."""
    members = _of(Trial.variant_id, [SweepTrial.sweep_id.in_(sweep_ids)])
    return list(connection.scalars(sa.select(Variant.name).where(Variant.id.in_(members)).distinct()))


_VARIANTS = sa.select(
    *(Variant.id, Variant.family, Variant.name, Variant.ordinal, Variant.kind, Variant.backend),
    *(Variant.expected, Variant.description, Variant.origin),
)
_PROBLEMS = sa.select(Problem.id, Problem.coordinates)
_RUN = (
    Run.sweep_id.label("run_sweep_id"),
    Run.device_id.label("run_device_id"),
    *(Run.state, Run.phase, Run.message, Run.log, Run.started_at, Run.duration_ns),
    *(Run.check_passed, Run.check_error, Run.check_error_absolute, Run.check_error_relative),
    *(Run.check_message, Run.check_seed),
    *(Run.build_registers, Run.build_shared_bytes, Run.build_spill_bytes, Run.build_cached),
    *(Run.build_ns, Run.build_log, Run.job),
)
_MEMBERS = (
    sa.select(
        *(SweepTrial.sweep_id, SweepTrial.ordinal, SweepTrial.device_id, SweepTrial.run_id),
        *(SweepTrial.unavailable_reason, SweepTrial.unavailable_remedy),
        *(Trial.id, Trial.identity, Trial.label, Trial.variant_id, Trial.problem_id, Trial.tunables),
        Trial.device_id.label("trial_device_id"),
        *(Trial.useful_bytes, Trial.flops),
        *_RUN,
    )
    .join(Trial, Trial.id == SweepTrial.trial_id)
    .join(Variant, Variant.id == Trial.variant_id)
    .outerjoin(Run, Run.id == SweepTrial.run_id)
    .order_by(SweepTrial.ordinal)
)
_FIGURES = (
    *(Timing.median_ns, Timing.low_ns, Timing.high_ns, Timing.confidence, Timing.mean_ns),
    *(Timing.stdev_ns, Timing.min_ns, Timing.max_ns, Timing.q1_ns, Timing.q3_ns),
)
_TIMINGS = sa.select(
    *(Timing.id, Timing.run_id, Timing.measure, Timing.method, Timing.stopped_by),
    *(Timing.details, Timing.rotation, Timing.energy_j, Timing.mean_w, Timing.idle_w),
    *(Timing.sample_count, Timing.excluded_count, *_FIGURES),
).order_by(Timing.id)


def _of(column: Any, chosen: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    """Return the values of a column among the members that were chosen."""
    return (
        sa.select(column)
        .select_from(SweepTrial)
        .join(Trial, Trial.id == SweepTrial.trial_id)
        .join(Variant, Variant.id == Trial.variant_id)
        .where(*chosen)
    )


def _trial(row: Any, variant: Any, problem: Point, timings: Mapping[Measure, TimingRow]) -> TrialRow:
    reason = row.unavailable_reason
    return TrialRow(
        id=row.id,
        sweep_id=row.sweep_id,
        ordinal=row.ordinal,
        identity=row.identity,
        label=row.label,
        family=variant.family,
        variant=variant.name,
        order=variant.ordinal,
        kind=variant.kind,
        backend=variant.backend,
        expected=variant.expected,
        description=variant.description,
        origin=variant.origin,
        problem=problem,
        tunables=Point(row.tunables),
        useful_bytes=row.useful_bytes,
        flops=row.flops,
        device_id=next(filter(None, (row.run_device_id, row.device_id, row.trial_device_id)), None),
        unavailable=None if reason is None else Unavailable(reason, row.unavailable_remedy or ""),
        run=None if row.run_id is None else _run(row),
        timings=timings,
    )


def _run(row: Any) -> RunRow:
    return RunRow(
        id=row.run_id,
        sweep_id=row.run_sweep_id,
        device_id=row.run_device_id,
        state=State(row.state),
        phase=row.phase,
        message=row.message,
        log=row.log,
        started_at=row.started_at,
        duration_ns=row.duration_ns,
        check=_check(row),
        build=_build(row),
        job=row.job or "",
    )


def _check(row: Any) -> Check | None:
    if row.check_passed is None:
        return None
    return Check(
        passed=row.check_passed,
        error=_number(row.check_error),
        error_absolute=_number(row.check_error_absolute),
        error_relative=_number(row.check_error_relative),
        message=row.check_message or "",
        seed=int(row.check_seed or 0),
    )


def _build(row: Any) -> BuildFacts | None:
    if row.build_cached is None:
        return None
    return BuildFacts(
        registers=row.build_registers,
        shared_bytes=row.build_shared_bytes,
        spill_bytes=row.build_spill_bytes,
        cached=row.build_cached,
        build_ns=row.build_ns or 0,
        log=row.build_log or "",
    )


def _timing(row: Any) -> TimingRow:
    figures = map(_number, row[-len(_FIGURES) :])
    return TimingRow(
        id=row.id,
        run_id=row.run_id,
        measure=Measure(row.measure),
        method=row.method,
        stopped_by=row.stopped_by,
        summary=Summary(row.sample_count, row.excluded_count, *figures),
        details=row.details or {},
        rotation=row.rotation or "",
        energy=None if row.energy_j is None else Energy(row.energy_j, _number(row.mean_w), _number(row.idle_w)),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
