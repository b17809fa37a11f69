"""What views rank by, small enough to be read whole: one short row a timing instead of five long ones.

A timing has a row for each sweep that goes by its run, and one under sweep 0 where it is the newest of its trial, measure
and method. The rows are computed from the other tables; whoever changes those refreshes these in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.records import State
from cuprof.store.models import Ranking, Run, SweepTrial, Timing, Trial
from cuprof.store.rows import chunks

ALL_SWEEPS = 0


def refresh(connection: Connection, trial_ids: Collection[int] | None = None) -> None:
    """Rank the timings of some trials anew, of all when None."""
    of_trials = [None] if trial_ids is None else list(chunks(list(trial_ids)))
    for chunk in of_trials:
        connection.execute(sa.delete(Ranking).where(*([] if chunk is None else [Ranking.trial_id.in_(chunk)])))
        for rows in _rows(chunk):
            connection.execute(sa.insert(Ranking).from_select(list(rows.selected_columns.keys()), rows))


def _rows(trial_ids: Collection[int] | None) -> Iterator[sa.Select[Any]]:
    """Yield the rows of the newest timings, and those of sweeps."""
    chosen = [] if trial_ids is None else [Trial.id.in_(trial_ids)]
    is_ok, has_median = Run.state == State.OK.value, Timing.median_ns.is_not(None)
    facts = [
        *(Trial.problem_id, Trial.variant_id, Timing.measure, Timing.method, Timing.median_ns),
        *(Trial.id.label("trial_id"), Timing.id.label("timing_id")),
    ]
    newest_first = (sa.case((is_ok, 0), else_=1), Timing.id.desc())
    place = sa.func.row_number().over(partition_by=(Trial.id, Timing.measure, Timing.method), order_by=newest_first)
    ranked = (
        sa.select(
            sa.literal(ALL_SWEEPS).label("sweep_id"),
            sa.literal(0).label("ordinal"),
            sa.func.coalesce(Run.device_id, Trial.device_id, 0).label("device_id"),
            sa.and_(is_ok, Trial.state == State.OK.value, has_median).label("is_right"),
            *facts,
            place.label("place"),
        )
        .join(Run, Run.trial_id == Trial.id)
        .join(Timing, Timing.run_id == Run.id)
        .where(*chosen)
        .subquery()
    )
    yield sa.select(*(column for column in ranked.c if column.name != "place")).where(ranked.c.place == 1)
    yield (
        sa.select(
            SweepTrial.sweep_id,
            SweepTrial.ordinal,
            sa.func.coalesce(Run.device_id, SweepTrial.device_id, Trial.device_id, 0).label("device_id"),
            sa.and_(is_ok, Trial.state != State.WRONG_RESULT.value, has_median).label("is_right"),
            *facts,
        )
        .join(Trial, Trial.id == SweepTrial.trial_id)
        .join(Run, Run.id == SweepTrial.run_id)
        .join(Timing, Timing.run_id == Run.id)
        .where(*chosen)
    )
