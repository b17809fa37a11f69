"""What views rank by, small enough to be read whole: one short row a timing instead of five long ones.

A timing has a row for each sweep that goes by its run, and one under sweep 0 where it is the newest of its trial,
measure and method. There the earlier looks of a search, by whose luckiest all others would be judged, do not count as
right: their sweep goes by a later run of the trial, and no other sweep goes by them. The rows are computed from the
other tables; whoever changes those refreshes these in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import State
from cuprof.store.models import Ranking, Run, SweepTrial, Timing, Trial
from cuprof.store.rows import among

ALL_SWEEPS = 0
_FACTS = (
    *(Trial.problem_id, Trial.variant_id, Timing.measure, Timing.method, Timing.median_ns),
    *(Trial.id.label("trial_id"), Timing.id.label("timing_id")),
)
_IS_EARLIER_LOOK = sa.and_(
    ~sa.exists().where(SweepTrial.run_id == Run.id),
    sa.exists().where(
        SweepTrial.trial_id == Run.trial_id, SweepTrial.sweep_id == Run.sweep_id, SweepTrial.run_id > Run.id
    ),
)


def refresh(connection: Connection, trial_id: int | None = None) -> None:
    """Rank the timings of a trial anew, of all trials when None."""
    for statement in _REFRESH_ALL if trial_id is None else _REFRESH:
        connection.execute(statement, {} if trial_id is None else {"trial": trial_id})


def refresh_members(connection: Connection, sweep_id: int, trial_ids: Sequence[int]) -> None:
    """Rank the timings of the runs that a sweep goes by anew, of some of its trials.

    They are named one by one: a server knows nothing yet of what this transaction has written, and takes it for a row.
    """
    chosen = Ranking.sweep_id == sweep_id, among(connection, Ranking.trial_id, trial_ids)
    connection.execute(sa.delete(Ranking).where(*chosen))
    members = SweepTrial.sweep_id == sweep_id, among(connection, SweepTrial.trial_id, trial_ids)
    connection.execute(_insert(_of_sweeps(*members)))
    theirs = sa.select(Ranking.timing_id).where(*chosen, Ranking.is_right)
    connection.execute(  # what was an earlier look, and this sweep goes by
        sa.update(Ranking)
        .where(Ranking.sweep_id == ALL_SWEEPS, ~Ranking.is_right, Ranking.timing_id.in_(theirs))
        .where(sa.exists().where(Trial.id == Ranking.trial_id, Trial.state == State.OK.value))
        .values(is_right=True)
    )


def _insert(rows: Any) -> sa.Insert:
    return sa.insert(Ranking).from_select(list(rows.selected_columns.keys()), rows)


def _newest(*chosen: sa.ColumnElement[bool]) -> Any:
    is_ok, has_median = Run.state == State.OK.value, Timing.median_ns.is_not(None)
    newest_first = (sa.case((is_ok, 0), else_=1), Run.recorded_at.desc(), Timing.id.desc())
    place = sa.func.row_number().over(partition_by=(Trial.id, Timing.measure, Timing.method), order_by=newest_first)
    ranked = (
        sa.select(
            sa.literal(ALL_SWEEPS).label("sweep_id"),
            sa.literal(0).label("ordinal"),
            sa.func.coalesce(Run.device_id, Trial.device_id, 0).label("device_id"),
            sa.and_(is_ok, Trial.state == State.OK.value, has_median, ~_IS_EARLIER_LOOK).label("is_right"),
            *_FACTS,
            place.label("place"),
        )
        .join(Run, Run.trial_id == Trial.id)
        .join(Timing, Timing.run_id == Run.id)
        .where(*chosen)
        .subquery()
    )
    return sa.select(*(column for column in ranked.c if column.name != "place")).where(ranked.c.place == 1)


def _of_sweeps(*chosen: sa.ColumnElement[bool]) -> Any:
    is_ok, has_median = Run.state == State.OK.value, Timing.median_ns.is_not(None)
    return (
        sa.select(
            SweepTrial.sweep_id,
            SweepTrial.ordinal,
            sa.func.coalesce(Run.device_id, SweepTrial.device_id, Trial.device_id, 0).label("device_id"),
            sa.and_(is_ok, Trial.state != State.WRONG_RESULT.value, has_median).label("is_right"),
            *_FACTS,
        )
        .join(Trial, Trial.id == SweepTrial.trial_id)
        .join(Run, Run.id == SweepTrial.run_id)
        .join(Timing, Timing.run_id == Run.id)
        .where(*chosen)
        .order_by(
            Trial.problem_id, Trial.variant_id, Timing.measure, Timing.median_ns
        )  # as the index, which grows faster
    )


_ONE = sa.bindparam("trial", type_=Trial.id.type)
_REFRESH_ALL = (sa.delete(Ranking), _insert(_newest()), _insert(_of_sweeps()))
_REFRESH = (
    sa.delete(Ranking).where(Ranking.trial_id == _ONE),
    _insert(_newest(Trial.id == _ONE)),
    _insert(_of_sweeps(Trial.id == _ONE)),
)
"""Made once: SQLAlchemy takes longer to put a statement together than a database to carry it out."""
