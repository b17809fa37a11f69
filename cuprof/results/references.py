"""Read reference trials, which several jobs of one sweep measured, to see how the jobs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Measure, State
from cuprof.results.intact import intact
from cuprof.store import tables as t


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
    right = sa.and_(t.run.c.sweep_id.in_(sweep_ids), t.run.c.job.is_not(None), t.run.c.state == State.OK.value)
    shared = (
        sa.select(t.run.c.sweep_id, t.run.c.trial_id)
        .where(right)
        .group_by(t.run.c.sweep_id, t.run.c.trial_id)
        .having(sa.func.count(t.run.c.job.distinct()) > 1)
        .subquery()
    )
    rows = connection.execute(
        sa.select(
            t.run.c.sweep_id, t.run.c.job, t.trial.c.identity, t.timing.c.measure, t.timing.c.id, t.timing.c.median_ns
        )
        .join(shared, sa.and_(shared.c.sweep_id == t.run.c.sweep_id, shared.c.trial_id == t.run.c.trial_id))
        .join(t.trial, t.trial.c.id == t.run.c.trial_id)
        .join(t.timing, t.timing.c.run_id == t.run.c.id)
        .where(right, t.timing.c.median_ns.is_not(None))
        .order_by(t.run.c.trial_id, t.timing.c.id)  # a job's first is the same trial in every job that has it
    )
    return [Reference(row.sweep_id, row.job, row.identity, Measure(row.measure), row.id, row.median_ns) for row in rows]
