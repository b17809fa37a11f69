"""What is stored of the times of a family's variants, whichever sweep, problem, device or version they are of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.results.intact import intact
from cuprof.results.sweeps import is_outdated
from cuprof.store.models import Device, Problem, Run, Sweep, SweepTrial, Timing, Trial, Variant


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One run of one trial, with one measure's time where it has one.

    Args:
        is_expected_wrong: of a variant that is kept because it is wrong.
        samples: that count in the time; 0 where there is none.
        high_ns: the upper end of the interval of the time's median, which `confidence` is of.
        started_at: seconds since 1970; 0 where that is not stored.
        circumstances: equal for runs of one variant's text, problem and device; where the method is the same as well,
            their times say directly which of two tunables is better.
    """

    identity: str
    variant: str
    problem: Point
    tunables: Point
    device: str
    sweep_id: int
    state: State
    is_expected_wrong: bool
    method: str
    samples: int
    median_ns: float | None
    high_ns: float | None
    confidence: float
    energy_j: float | None
    started_at: float
    duration_ns: int
    circumstances: tuple[object, ...]


@intact
def list_earlier(
    connection: Connection, family: str, measure: Measure, variants: Collection[str] = ()
) -> list[EarlierRun]:
    """Return every run of a family that was more than skipped, in the order in which they were stored.

    Args:
        variants: only these, all when empty.
    """
    chosen = [Variant.name.in_(variants)] if variants else []
    rows = connection.execute(
        sa.select(
            Trial.identity, Variant.name, Variant.source_hash, Problem.id, Problem.coordinates, Trial.tunables,
            Run.sweep_id, Run.state, Run.started_at, Run.duration_ns, Run.device_id, Device.name.label("device"),
            Variant.expected, Timing.method, Timing.sample_count, Timing.median_ns, Timing.high_ns, Timing.confidence,
            Timing.energy_j,
        )
        .join(Variant, Variant.id == Trial.variant_id)
        .join(Problem, Problem.id == Trial.problem_id)
        .join(Run, Run.trial_id == Trial.id)
        .outerjoin(Timing, sa.and_(Timing.run_id == Run.id, Timing.measure == str(measure)))
        .outerjoin(Device, Device.id == Run.device_id)
        .where(Variant.family == family, *chosen, Run.state != str(State.SKIPPED))
        .order_by(Run.id)
    )  # fmt: skip
    return [
        EarlierRun(
            identity=row.identity,
            variant=row.name,
            problem=Point(row.coordinates),
            tunables=Point(row.tunables),
            device=row.device or "",
            sweep_id=row.sweep_id,
            state=State(row.state),
            is_expected_wrong=row.expected == "wrong",
            method=row.method or "",
            samples=row.sample_count or 0,
            median_ns=row.median_ns,
            high_ns=row.high_ns,
            confidence=row.confidence or 0.0,
            energy_j=row.energy_j,
            started_at=row.started_at or 0.0,
            duration_ns=row.duration_ns or 0,
            circumstances=(row.name, row.source_hash, row.id, row.device_id),
        )
        for row in rows
    ]


@intact
def count_outdated(connection: Connection, family: str) -> int:
    """Return the stored trials of a family whose identities are of an earlier version, until it has newer ones."""
    sweeps = connection.execute(
        sa.select(Sweep.id, Sweep.software, sa.func.count(SweepTrial.run_id))
        .join(SweepTrial, SweepTrial.sweep_id == Sweep.id)
        .where(Sweep.family == family)
        .group_by(Sweep.id)
    ).all()
    stored = {row[0]: is_outdated(row[1]) for row in sweeps if row[2]}
    if not all(stored.values()):
        return 0
    trials = sa.select(sa.func.count(sa.distinct(SweepTrial.trial_id))).where(SweepTrial.sweep_id.in_(stored))
    return connection.scalar(trials.where(SweepTrial.run_id.is_not(None))) or 0
