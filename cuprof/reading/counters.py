"""What a profiler said of a sweep's trials: values by trial and by launch, advice, durations.

These come by the hundred thousand and mostly become frames, so a row is a named tuple.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.reading.intact import intact
from cuprof.store import counter_models as tables
from cuprof.store.models import SweepTrial


class TrialCounter(NamedTuple):
    """One metric of one profile, rolled up over the launches of its trial; `value` is None for text or no number."""

    trial_id: int
    profile_id: int
    metric: str
    unit: str
    rollup: str
    meaning: str
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


@intact
def list_trial_counters(connection: Connection, sweep_id: int) -> list[TrialCounter]:
    """Return every stored value of the trials of a sweep, whichever sweep it was collected in, by profile and name."""
    rolled = tables.TrialCounter
    rows = connection.execute(
        sa.select(
            *(_PROFILE.trial_id, _PROFILE.id, *_NAMED, _METRIC.meaning),
            *(rolled.cache_mode, _PROFILE.clock_control, rolled.value, rolled.text),
        )
        .join(rolled, rolled.profile_id == _PROFILE.id)
        .join(_METRIC, _METRIC.id == rolled.metric_id)
        .where(_of_sweep(sweep_id))
        .order_by(_PROFILE.id, _METRIC.name)
    )
    return [TrialCounter._make(row) for row in rows]


@intact
def list_launch_counters(connection: Connection, sweep_id: int) -> list[LaunchCounter]:
    """Return every stored value of the launches of a sweep's trials, by profile, launch and name."""
    counter = tables.Counter
    rows = connection.execute(
        sa.select(
            *(_PROFILE.trial_id, _PROFILE.id, _LAUNCH.ordinal, _LAUNCH.kernel, *_NAMED, counter.value, counter.text)
        )
        .join(_LAUNCH, _LAUNCH.profile_id == _PROFILE.id)
        .join(counter, counter.launch_id == _LAUNCH.id)
        .join(_METRIC, _METRIC.id == counter.metric_id)
        .where(_of_sweep(sweep_id))
        .order_by(_PROFILE.id, _LAUNCH.ordinal, _METRIC.name)
    )
    return [LaunchCounter._make(row) for row in rows]


@intact
def list_advice(connection: Connection, sweep_id: int) -> list[LaunchAdvice]:
    """Return the advice about the launches of a sweep's trials, by profile and launch, in the profiler's order."""
    advice = tables.Advice
    rows = connection.execute(
        sa.select(
            *(_PROFILE.trial_id, _PROFILE.id, _PROFILE.cache_mode, _LAUNCH.kernel),
            *(advice.rule, advice.severity, advice.title, advice.text, advice.speedup),
        )
        .join(_LAUNCH, _LAUNCH.profile_id == _PROFILE.id)
        .join(advice, advice.launch_id == _LAUNCH.id)
        .where(_of_sweep(sweep_id))
        .order_by(_PROFILE.id, _LAUNCH.ordinal, advice.ordinal)
    )
    return [LaunchAdvice._make(row) for row in rows]


@intact
def list_profile_durations(connection: Connection, sweep_id: int) -> list[ProfileDuration]:
    """Return the duration of every profile of a sweep's trials that saw a launch."""
    # half a sum is not a sum
    whole = sa.case((sa.func.count() == sa.func.count(_LAUNCH.duration_ns), sa.func.sum(_LAUNCH.duration_ns)))
    facts = (_PROFILE.trial_id, _PROFILE.id, _PROFILE.cache_mode, _PROFILE.clock_control)
    rows = connection.execute(
        sa.select(*facts, whole)
        .join(_LAUNCH, _LAUNCH.profile_id == _PROFILE.id)
        .where(_of_sweep(sweep_id))
        .group_by(*facts)
        .order_by(_PROFILE.id)
    )
    return [ProfileDuration._make(row) for row in rows]


_PROFILE, _LAUNCH, _METRIC = tables.Profile, tables.Launch, tables.Metric
_NAMED = (_METRIC.name, _METRIC.unit, _METRIC.rollup)


def _of_sweep(sweep_id: int) -> sa.ColumnElement[bool]:
    members: Any = sa.select(SweepTrial.trial_id).where(SweepTrial.sweep_id == sweep_id)
    return _PROFILE.trial_id.in_(members)
