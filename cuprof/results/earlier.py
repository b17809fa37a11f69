"""Read the stored times of a family's variants, from any sweep, problem, device or version."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.results.intact import intact
from cuprof.results.sweeps import is_outdated
from cuprof.store import tables as t


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
    chosen = [t.variant.c.name.in_(variants)] if variants else []
    rows = connection.execute(
        sa.select(
            t.trial.c.identity,
            t.variant.c.name,
            t.variant.c.source_hash,
            t.problem.c.id,
            t.problem.c.coordinates,
            t.trial.c.tunables,
            t.run.c.sweep_id,
            t.run.c.state,
            t.run.c.started_at,
            t.run.c.duration_ns,
            t.run.c.device_id,
            t.device.c.name.label("device"),
            t.variant.c.expected,
            t.timing.c.method,
            t.timing.c.sample_count,
            t.timing.c.median_ns,
            t.timing.c.high_ns,
            t.timing.c.confidence,
            t.timing.c.energy_j,
        )
        .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
        .join(t.problem, t.problem.c.id == t.trial.c.problem_id)
        .join(t.run, t.run.c.trial_id == t.trial.c.id)
        .outerjoin(t.timing, sa.and_(t.timing.c.run_id == t.run.c.id, t.timing.c.measure == str(measure)))
        .outerjoin(t.device, t.device.c.id == t.run.c.device_id)
        .where(t.variant.c.family == family, *chosen, t.run.c.state != str(State.SKIPPED))
        .order_by(t.run.c.id)
    )
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
        sa.select(t.sweep.c.id, t.sweep.c.software, sa.func.count(t.sweep_trial.c.run_id))
        .join(t.sweep_trial, t.sweep_trial.c.sweep_id == t.sweep.c.id)
        .where(t.sweep.c.family == family)
        .group_by(t.sweep.c.id)
    ).all()
    stored = {row[0]: is_outdated(row[1]) for row in sweeps if row[2]}
    if not all(stored.values()):
        return 0
    trials = sa.select(sa.func.count(sa.distinct(t.sweep_trial.c.trial_id))).where(t.sweep_trial.c.sweep_id.in_(stored))
    return connection.scalar(trials.where(t.sweep_trial.c.run_id.is_not(None))) or 0
