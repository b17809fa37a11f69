"""Trials that several jobs of one sweep have measured, by which what the jobs differ by is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Measure, State
from cuprof.results.intact import intact
from cuprof.store.models import Run, Timing, Trial


@dataclass(frozen=True)
class Reference:
    """One measuring of a reference.

    Args:
        job: what was measured in the same job has the same text.
        timing_id: by which its samples are read.
    """

    sweep_id: int
    job: str
    identity: str
    measure: Measure
    timing_id: int
    median_ns: float


@intact
def list_references(connection: Connection, sweep_ids: Sequence[int]) -> list[Reference]:
    """Return the measurings of each trial that several jobs of one of these sweeps were right about, job by job."""
    right = sa.and_(Run.sweep_id.in_(sweep_ids), Run.job.is_not(None), Run.state == State.OK.value)
    shared = (
        sa.select(Run.sweep_id, Run.trial_id)
        .where(right)
        .group_by(Run.sweep_id, Run.trial_id)
        .having(sa.func.count(Run.job.distinct()) > 1)
        .subquery()
    )
    rows = connection.execute(
        sa.select(Run.sweep_id, Run.job, Trial.identity, Timing.measure, Timing.id, Timing.median_ns)
        .join(shared, sa.and_(shared.c.sweep_id == Run.sweep_id, shared.c.trial_id == Run.trial_id))
        .join(Trial, Trial.id == Run.trial_id)
        .join(Timing, Timing.run_id == Run.id)
        .where(right, Timing.median_ns.is_not(None))
        .order_by(Run.trial_id, Timing.id)  # a job's first is the same trial in every job that has it
    )
    return [Reference(row.sweep_id, row.job, row.identity, Measure(row.measure), row.id, row.median_ns) for row in rows]
