"""What a profiler said of a sweep's trials: values by trial and by launch, advice, durations.

These come by the hundred thousand, as frames; the columns of `read_results` that have the same names say the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Conditions, CounterValue
from cuprof.results.read import make_columns, named, read_columns, to_floats, to_integers, to_words
from cuprof.store import tables as t
from cuprof.store.rows import among

_OF_PROFILE = {
    **named(to_integers, t.profile, "trial_id"),
    "profile_id": (to_integers, t.profile.c.id),
    **named(to_words, t.profile, "cache_mode", "clock_control"),
}
_OF_LAUNCH = {**named(to_integers, t.launch, "ordinal"), **named(to_words, t.launch, "kernel")}
_OF_METRIC = {"metric": (to_words, t.metric.c.name), **named(to_words, t.metric, "unit", "rollup")}


def read_counters(connection: Connection, sweep_id: int, *, by_launch: bool = False) -> pd.DataFrame:
    """Return every stored counter of a sweep's trials, whichever sweep it was collected in.

    A row is a metric of a profile, rolled up over the launches of its trial, or of one launch, which has `ordinal` and
    `kernel` as well. Columns: `trial_id`, `profile_id`, `cache_mode`, `clock_control`, `metric`, `unit`, `rollup`,
    `value` (NaN for text or no number), `text`. Rows come by profile, launch, and the metric's name.
    """
    table, columns = (t.counter, _OF_PROFILE | _OF_LAUNCH) if by_launch else (t.trial_counter, _OF_PROFILE)
    columns = columns | _OF_METRIC | named(to_floats, table, "value") | named(to_words, table, "text")
    query = _of_sweep(sweep_id, table).join(t.metric, t.metric.c.id == table.c.metric_id)
    return make_columns(read_columns(connection, query.order_by(t.metric.c.name), columns))


def read_advice(connection: Connection, sweep_id: int) -> pd.DataFrame:
    """Return the profiler's advice about launches of a sweep's trials, by profile, launch and its own order.

    Columns: `trial_id`, `profile_id`, `cache_mode`, `clock_control`, `ordinal` (of the launch), `kernel`, `rule`,
    `severity`, `title`, `text`.
    """
    columns = _OF_PROFILE | _OF_LAUNCH | named(to_words, t.advice, "rule", "severity", "title", "text")
    query = _of_sweep(sweep_id, t.advice).order_by(t.advice.c.ordinal)
    return make_columns(read_columns(connection, query, columns))


def read_profile_durations(connection: Connection, sweep_id: int) -> pd.DataFrame:
    """Return every profile of a sweep's trials that saw a launch.

    Columns: `trial_id`, `profile_id`, `cache_mode`, `clock_control`, `duration_ns`: of its launches together, NaN where
    one of them has none.
    """
    # half a sum is not a sum
    whole = sa.case((sa.func.count() == sa.func.count(t.launch.c.duration_ns), sa.func.sum(t.launch.c.duration_ns)))
    query = _of_sweep(sweep_id, t.launch).group_by(*(column for _, column in _OF_PROFILE.values()))
    return make_columns(read_columns(connection, query, _OF_PROFILE | {"duration_ns": (to_floats, whole)}))


def _of_sweep(sweep_id: int, table: sa.Table) -> sa.Select[Any]:
    members = sa.select(t.sweep_trial.c.trial_id).where(t.sweep_trial.c.sweep_id == sweep_id)
    return select_profiled(table).where(t.profile.c.trial_id.in_(members))


def select_profiled(table: sa.Table, *columns: Any) -> sa.Select[Any]:
    """Select rows of profiles or launches from the table that holds them, by profile and launch."""
    query = sa.select(*columns).select_from(t.profile).order_by(t.profile.c.id)
    if "profile_id" in table.c:
        return query.join(table, table.c.profile_id == t.profile.c.id)
    query = query.join(t.launch, t.launch.c.profile_id == t.profile.c.id).order_by(t.launch.c.ordinal)
    return query.join(table, table.c.launch_id == t.launch.c.id)


def read_newest_counters(
    connection: Connection, identities: Sequence[str], conditions: Conditions
) -> dict[str, dict[str, CounterValue]]:
    """Return identity → metric → the value of the newest profile, rolled up over its launches."""
    rows = connection.execute(
        sa.select(t.trial.c.identity, t.metric.c.name, t.trial_counter.c.value, t.metric.c.unit, t.trial_counter.c.text)
        .join(t.profile, t.profile.c.trial_id == t.trial.c.id)
        .join(t.trial_counter, t.trial_counter.c.profile_id == t.profile.c.id)
        .join(t.metric, t.metric.c.id == t.trial_counter.c.metric_id)
        .where(among(connection, t.trial.c.identity, identities))
        .where(*(t.profile.c[name] == value for name, value in asdict(conditions).items()))
        .order_by(t.profile.c.id)
    )
    newest: defaultdict[str, dict[str, CounterValue]] = defaultdict(dict)
    for identity, metric, value, unit, text in rows:
        newest[identity][metric] = CounterValue(metric, value, unit, text=text or "")
    return newest
