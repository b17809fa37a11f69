"""What views rank by: one short row for each timing, instead of a join of five long ones.

A timing has a row for each sweep that goes by its run, and one under sweep 0 where it is the newest of its trial,
measure and method. Under sweep 0 the earlier looks of a search do not count as right, because the luckiest of them
would beat everything else: their sweep goes by a later run of the trial, and no other sweep goes by them. The rows are
computed from the other tables; a transaction that changes those refreshes these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import State
from cuprof.store import tables as t
from cuprof.store.rows import among

ALL_SWEEPS = 0
_IS_OK, _HAS_MEDIAN = t.run.c.state == State.OK.value, t.timing.c.median_ns.is_not(None)
_FACTS = (
    *(t.trial.c.problem_id, t.trial.c.variant_id, t.timing.c.measure, t.timing.c.method, t.timing.c.median_ns),
    *(t.trial.c.id.label("trial_id"), t.timing.c.id.label("timing_id")),
)
_IS_EARLIER_LOOK = sa.and_(
    ~sa.exists().where(t.sweep_trial.c.run_id == t.run.c.id),
    sa.exists().where(
        t.sweep_trial.c.trial_id == t.run.c.trial_id,
        t.sweep_trial.c.sweep_id == t.run.c.sweep_id,
        t.sweep_trial.c.run_id > t.run.c.id,
    ),
)


def refresh(connection: Connection, trial_id: int | None = None) -> None:
    """Rank the timings of a trial again, of all trials when None."""
    for statement in _REFRESH_ALL if trial_id is None else _REFRESH:
        connection.execute(statement, {} if trial_id is None else {"trial": trial_id})


def refresh_members(connection: Connection, sweep_id: int, trial_ids: Sequence[int]) -> None:
    """Rank the timings of the runs that a sweep goes by again, for some of its trials.

    The trials are sent one by one: PostgreSQL has no statistics yet of what this transaction has written.
    """
    chosen = t.ranking.c.sweep_id == sweep_id, among(connection, t.ranking.c.trial_id, trial_ids)
    connection.execute(sa.delete(t.ranking).where(*chosen))
    members = t.sweep_trial.c.sweep_id == sweep_id, among(connection, t.sweep_trial.c.trial_id, trial_ids)
    connection.execute(_insert(_of_sweeps(*members)))
    right = sa.select(t.ranking.c.timing_id).where(*chosen, t.ranking.c.is_right)
    connection.execute(  # what was an earlier look no longer is one when this sweep goes by it
        sa.update(t.ranking)
        .where(t.ranking.c.sweep_id == ALL_SWEEPS, ~t.ranking.c.is_right, t.ranking.c.timing_id.in_(right))
        .where(sa.exists().where(t.trial.c.id == t.ranking.c.trial_id, t.trial.c.state == State.OK.value))
        .values(is_right=True)
    )


def _insert(rows: Any) -> sa.Insert:
    return sa.insert(t.ranking).from_select(list(rows.selected_columns.keys()), rows)


def _newest(*chosen: sa.ColumnElement[bool]) -> Any:
    newest_first = (sa.case((_IS_OK, 0), else_=1), t.run.c.recorded_at.desc(), t.timing.c.id.desc())
    each = (t.trial.c.id, t.timing.c.measure, t.timing.c.method)
    ranked = (
        sa.select(
            sa.literal(ALL_SWEEPS).label("sweep_id"),
            sa.literal(0).label("ordinal"),
            sa.func.coalesce(t.run.c.device_id, t.trial.c.device_id, 0).label("device_id"),
            sa.and_(_IS_OK, t.trial.c.state == State.OK.value, _HAS_MEDIAN, ~_IS_EARLIER_LOOK).label("is_right"),
            *_FACTS,
            sa.func.row_number().over(partition_by=each, order_by=newest_first).label("place"),
        )
        .join(t.run, t.run.c.trial_id == t.trial.c.id)
        .join(t.timing, t.timing.c.run_id == t.run.c.id)
        .where(*chosen)
        .subquery()
    )
    return sa.select(*(column for column in ranked.c if column.name != "place")).where(ranked.c.place == 1)


def _of_sweeps(*chosen: sa.ColumnElement[bool]) -> Any:
    device = sa.func.coalesce(t.run.c.device_id, t.sweep_trial.c.device_id, t.trial.c.device_id, 0)
    return (
        sa.select(
            t.sweep_trial.c.sweep_id,
            t.sweep_trial.c.ordinal,
            device.label("device_id"),
            sa.and_(_IS_OK, t.trial.c.state != State.WRONG_RESULT.value, _HAS_MEDIAN).label("is_right"),
            *_FACTS,
        )
        .join(t.trial, t.trial.c.id == t.sweep_trial.c.trial_id)
        .join(t.run, t.run.c.id == t.sweep_trial.c.run_id)
        .join(t.timing, t.timing.c.run_id == t.run.c.id)
        .where(*chosen)  # ordered as the index, which then grows faster
        .order_by(t.trial.c.problem_id, t.trial.c.variant_id, t.timing.c.measure, t.timing.c.median_ns)
    )


_ONE = sa.bindparam("trial", type_=t.trial.c.id.type)
_REFRESH_ALL = (sa.delete(t.ranking), _insert(_newest()), _insert(_of_sweeps()))
_REFRESH = (
    sa.delete(t.ranking).where(t.ranking.c.trial_id == _ONE),
    _insert(_newest(t.trial.c.id == _ONE)),
    _insert(_of_sweeps(t.trial.c.id == _ONE)),
)
"""Built once: SQLAlchemy takes longer to build a statement than a database to run it."""
