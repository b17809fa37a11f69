"""Read back what was stored as the records that it was stored from, by statements of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError
from cuprof.core.point import Point
from cuprof.core.records import Advice as AdviceRecord
from cuprof.core.records import (
    Artifact,
    BuildFacts,
    Check,
    Conditions,
    CounterValue,
    DeviceFacts,
    Energy,
    LaunchRecord,
    Measure,
    Outcome,
    Profile,
    Sample,
    State,
    Summary,
    Timing,
    Trial,
    Unavailable,
)
from cuprof.store import tables as t
from cuprof.store.store import Store


def get_outcome(store: Store, run_id: int) -> Outcome:
    """Return a run as it was recorded (times to the microsecond)."""
    with store.snapshot() as connection:
        return _get_outcome(connection, run_id)


def get_profile(store: Store, profile_id: int) -> Profile:
    """Return a profile as it was recorded (times to the microsecond)."""
    with store.snapshot() as connection:
        return _get_profile(connection, profile_id)


def list_trials(store: Store, sweep_id: int) -> list[Trial]:
    """Return the trials of a sweep in their order, as they were enlisted."""
    with store.snapshot() as connection:
        return _list_trials(connection, sweep_id)


_ENERGY = ("energy_j", "mean_w", "idle_w")
_FIGURES = (
    *("median_ns", "low_ns", "high_ns", "confidence", "mean_ns", "stdev_ns", "min_ns", "max_ns", "q1_ns", "q3_ns"),
)


def _get_outcome(connection: Connection, run_id: int) -> Outcome:
    """Return a run as it was recorded (times to the microsecond).

    Raises:
        StoreError: there is no such run.
    """
    found = (
        connection.execute(
            sa.select(t.run, t.trial.c.identity)
            .join(t.trial, t.trial.c.id == t.run.c.trial_id)
            .where(t.run.c.id == run_id)
        )
        .mappings()
        .first()
    )
    if found is None:
        raise StoreError(f"there is no run {run_id} in the database")
    row = dict(found)
    timings = connection.execute(
        sa.select(t.timing).where(t.timing.c.run_id == run_id).order_by(t.timing.c.id)
    ).mappings()
    return Outcome(
        identity=row["identity"],
        state=State(row["state"]),
        message=row["message"],
        log=row["log"],
        phase=row["phase"],
        check=_read_check(row),
        build=_read_build(row),
        timings=tuple(_read_timing(connection, dict(timing)) for timing in timings.all()),
        started_at=row["started_at"] or 0.0,
        duration_ns=row["duration_ns"],
    )


def _read_timing(connection: Connection, row: dict[str, Any]) -> Timing:
    statement = "SELECT round, duration_ns, sm_clock_mhz, excluded FROM sample WHERE timing_id = :key ORDER BY ordinal"
    samples = connection.execute(sa.text(statement), {"key": row["id"]})
    figures = {name: _number(row[name]) for name in _FIGURES}
    return Timing(
        measure=Measure(row["measure"]),
        method=row["method"],
        samples=tuple(Sample(turn, _number(length), clock, excluded) for turn, length, clock, excluded in samples),
        summary=Summary(count=row["sample_count"], excluded=row["excluded_count"], **figures),
        stopped_by=row["stopped_by"],
        details=row["details"],
        rotation=row["rotation"],
        energy=None if row["energy_j"] is None else Energy(*(row[name] for name in _ENERGY)),
    )


def _read_check(row: dict[str, Any]) -> Check | None:
    if row["check_passed"] is None:
        return None
    return Check(
        passed=row["check_passed"],
        error=_number(row["check_error"]),
        error_absolute=_number(row["check_error_absolute"]),
        error_relative=_number(row["check_error_relative"]),
        message=row["check_message"],
        seed=int(row["check_seed"]),
    )


def _read_build(row: dict[str, Any]) -> BuildFacts | None:
    if row["build_cached"] is None:
        return None
    return BuildFacts(
        registers=row["build_registers"],
        shared_bytes=row["build_shared_bytes"],
        spill_bytes=row["build_spill_bytes"],
        cached=row["build_cached"],
        build_ns=row["build_ns"],
        log=row["build_log"],
    )


def _get_profile(connection: Connection, profile_id: int) -> Profile:
    """Return a profile as it was recorded (times to the microsecond); raises `StoreError` where there is none."""
    found = connection.execute(
        sa.select(t.profile, t.trial.c.identity)
        .outerjoin(t.trial, t.trial.c.id == t.profile.c.trial_id)
        .where(t.profile.c.id == profile_id)
    ).first()
    if found is None:
        raise StoreError(f"there is no profile {profile_id} in the database")
    rolled = _read_values(connection, t.trial_counter, t.trial_counter.c.profile_id, profile_id)
    launches = connection.execute(
        sa.select(t.launch).where(t.launch.c.profile_id == profile_id).order_by(t.launch.c.ordinal)
    )
    return Profile(
        identity=found.identity,
        name=found.name,
        state=State(found.state),
        conditions=Conditions(found.cache_mode, found.clock_control, found.replay),
        message=found.message,
        log=found.log,
        metric_set=found.metric_set,
        metrics=tuple(found.metrics),
        missing=found.missing,
        artifact=_read_artifact(connection, found.artifact_id),
        launches=tuple(_read_launch(connection, row) for row in launches.all()),
        rolled=rolled,
        started_at=found.started_at or 0.0,
        duration_ns=found.duration_ns,
    )


def _read_launch(connection: Connection, row: Any) -> LaunchRecord:
    found = connection.execute(sa.select(t.advice).where(t.advice.c.launch_id == row.id).order_by(t.advice.c.ordinal))
    return LaunchRecord(
        ordinal=row.ordinal,
        kernel=row.kernel,
        grid=(row.grid_x, row.grid_y, row.grid_z),
        block=(row.block_x, row.block_y, row.block_z),
        registers=row.registers,
        shared_static_bytes=row.shared_static_bytes,
        shared_dynamic_bytes=row.shared_dynamic_bytes,
        duration_ns=row.duration_ns,
        counters=_read_values(connection, t.counter, t.counter.c.launch_id, row.id),
        advice=tuple(
            AdviceRecord(found.rule, found.severity, found.text, found.title, found.section, found.speedup)
            for found in found
        ),
        details=row.details,
    )


def _read_values(connection: Connection, table: sa.Table, owner: Any, key: int) -> tuple[CounterValue, ...]:
    rows = connection.execute(
        sa.select(
            t.metric.c.name,
            t.metric.c.unit,
            t.metric.c.rollup,
            t.metric.c.meaning,
            *(table.c[name] for name in ("value", "text", "instances")),
        )
        .join(t.metric, t.metric.c.id == table.c.metric_id)
        .where(owner == key)
        .order_by(t.metric.c.name)
    )
    return tuple(
        CounterValue(name, value, unit, rollup, meaning, instances or {}, text or "")
        for name, unit, rollup, meaning, value, text, instances in rows
    )


def _read_artifact(connection: Connection, key: int | None) -> Artifact | None:
    row = connection.execute(sa.select(t.artifact).where(t.artifact.c.id == key)).first()
    if row is None:
        return None
    return Artifact(row.path, row.sha256, row.size_bytes, row.kind, row.tool_version, tuple(row.command))


def _list_trials(connection: Connection, sweep_id: int) -> list[Trial]:
    """Return the trials of a sweep in their order."""
    devices = {row.id: row for row in connection.execute(sa.select(t.device))}
    rows = connection.execute(
        sa.select(t.trial, t.variant, t.problem, t.sweep_trial)
        .join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
        .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
        .join(t.problem, t.problem.c.id == t.trial.c.problem_id)
        .where(t.sweep_trial.c.sweep_id == sweep_id)
        .order_by(t.sweep_trial.c.ordinal)
        .set_label_style(sa.LABEL_STYLE_TABLENAME_PLUS_COL)
    )
    return [_read_trial(dict(row), devices) for row in rows.mappings()]


def _read_trial(row: Mapping[str, Any], devices: Mapping[int, Any]) -> Trial:
    device, reason = devices.get(row["sweep_trial_device_id"]), row["sweep_trial_unavailable_reason"]
    return Trial(
        identity=row["trial_identity"],
        family=row["variant_family"],
        variant=row["variant_name"],
        backend=row["variant_backend"],
        kind=row["variant_kind"],
        problem=Point(row["problem_coordinates"]),
        tunables=Point(row["trial_tunables"]),
        label=row["trial_label"],
        device=None if device is None else _read_device(device),
        source_text=row["variant_source_text"],
        source_hash=row["variant_source_hash"],
        description=row["variant_description"],
        origin=row["variant_origin"],
        expected=row["variant_expected"],
        order=row["variant_ordinal"],
        useful_bytes=row["trial_useful_bytes"],
        flops=row["trial_flops"],
        unavailable=None if reason is None else Unavailable(reason, row["sweep_trial_unavailable_remedy"]),
    )


def _read_device(row: Any) -> DeviceFacts:
    return DeviceFacts(
        backend=row.backend,
        index=row.ordinal,
        name=row.name,
        uuid=row.uuid,
        memory_bytes=row.memory_bytes,
        identity=row.identity,
        details=row.details,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
