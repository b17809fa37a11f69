"""What a profiler said of a sweep's trials: values by trial and by launch, advice, durations.

These come by the hundred thousand and mostly become frames, so a row is a named tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Conditions
from cuprof.store import tables as t
from cuprof.store.rows import among


class TrialCounter(NamedTuple):
    """One metric of one profile, rolled up over the launches of its trial; `value` is None for text or no number."""

    trial_id: int
    profile_id: int
    metric: str
    unit: str
    rollup: str
    cache_mode: str
    clock_control: str
    value: float | None
    text: str | None


class LaunchCounter(NamedTuple):
    """One metric of one launch."""

    trial_id: int
    profile_id: int
    ordinal: int
    kernel: str
    metric: str
    unit: str
    rollup: str
    value: float | None
    text: str | None


class LaunchAdvice(NamedTuple):
    """A piece of a profiler's advice about one launch; `speedup` in percent where one is estimated."""

    trial_id: int
    profile_id: int
    cache_mode: str
    kernel: str
    rule: str
    severity: str
    title: str
    text: str
    speedup: float | None


class ProfileDuration(NamedTuple):
    """How long the launches of one profile took together; None where one of them has no duration."""

    trial_id: int
    profile_id: int
    cache_mode: str
    clock_control: str
    duration_ns: float | None


class NewestCounter(NamedTuple):
    """One metric of one trial, rolled up over its launches; `value` is None for text or no number."""

    identity: str
    metric: str
    unit: str
    value: float | None
    text: str


Row = TypeVar("Row", TrialCounter, LaunchCounter, LaunchAdvice)


def list_rows(connection: Connection, sweep_id: int, kind: type[Row]) -> list[Row]:
    """Return every stored row of a kind of a sweep's trials, whichever sweep it was collected in.

    They come by profile, launch, and the metric's name or the profiler's order.
    """
    table, order = _TABLES[kind], [_PROFILE.c.id]
    query = _select(kind, table)
    if "launch_id" in table.c:
        query = query.join(_LAUNCH, _LAUNCH.c.profile_id == _PROFILE.c.id).join(
            table, table.c.launch_id == _LAUNCH.c.id
        )
        order.append(_LAUNCH.c.ordinal)
    else:
        query = query.join(table, table.c.profile_id == _PROFILE.c.id)
    if "metric_id" in table.c:
        query = query.join(_METRIC, _METRIC.c.id == table.c.metric_id)
    order.append(_METRIC.c.name if "metric_id" in table.c else table.c.ordinal)
    return [kind(*row) for row in connection.execute(query.where(_of_sweep(sweep_id)).order_by(*order))]


def list_profile_durations(connection: Connection, sweep_id: int) -> list[ProfileDuration]:
    """Return the duration of every profile of a sweep's trials that saw a launch."""
    # half a sum is not a sum
    whole = sa.case((sa.func.count() == sa.func.count(_LAUNCH.c.duration_ns), sa.func.sum(_LAUNCH.c.duration_ns)))
    facts = [_COLUMNS[name] for name in ProfileDuration._fields[:-1]]
    rows = connection.execute(
        sa.select(*facts, whole)
        .join(_LAUNCH, _LAUNCH.c.profile_id == _PROFILE.c.id)
        .where(_of_sweep(sweep_id))
        .group_by(*facts)
        .order_by(_PROFILE.c.id)
    )
    return [ProfileDuration._make(row) for row in rows]


def list_newest_counters(
    connection: Connection, identities: Sequence[str], conditions: Conditions
) -> list[NewestCounter]:
    """Return one value a trial and metric, that of the newest profile; in no order that means anything."""
    rows = connection.execute(
        _select(NewestCounter, _ROLLED)
        .join(_PROFILE, _PROFILE.c.trial_id == t.trial.c.id)
        .join(_ROLLED, _ROLLED.c.profile_id == _PROFILE.c.id)
        .join(_METRIC, _METRIC.c.id == _ROLLED.c.metric_id)
        .where(among(connection, t.trial.c.identity, identities))
        .where(*(_PROFILE.c[name] == value for name, value in asdict(conditions).items()))
        .order_by(_PROFILE.c.id)
    )
    found = [NewestCounter(identity, name, unit or "", value, text or "") for identity, name, unit, value, text in rows]
    return list({(counter.identity, counter.metric): counter for counter in found}.values())


_TABLES: dict[Any, sa.Table] = {TrialCounter: t.trial_counter, LaunchCounter: t.counter, LaunchAdvice: t.advice}
_PROFILE, _LAUNCH, _METRIC, _ROLLED = t.profile, t.launch, t.metric, t.trial_counter
_COLUMNS = {
    **{name: _PROFILE.c[name] for name in ("trial_id", "cache_mode", "clock_control")},
    **{name: _LAUNCH.c[name] for name in ("ordinal", "kernel")},
    **{name: _METRIC.c[name] for name in ("unit", "rollup")},
    "profile_id": _PROFILE.c.id,
    "metric": _METRIC.c.name,
    "identity": t.trial.c.identity,
}


def _select(row: Any, table: Any) -> sa.Select[Any]:
    """Select the fields of a row: those that identify profile, launch and metric, and the others from a table."""
    columns: list[Any] = [_COLUMNS[name] if name in _COLUMNS else table.c[name] for name in row._fields]
    return sa.select(*columns)


def _of_sweep(sweep_id: int) -> sa.ColumnElement[bool]:
    members: Any = sa.select(t.sweep_trial.c.trial_id).where(t.sweep_trial.c.sweep_id == sweep_id)
    chosen: sa.ColumnElement[bool] = _PROFILE.c.trial_id.in_(members)
    return chosen
