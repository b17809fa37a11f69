"""Runs with their timings and samples, written in one transaction a run."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError
from cuprof.records import BuildFacts, Check, Outcome, State, Timing
from cuprof.store.models import Run, SweepTrial, Trial
from cuprof.store.models import Sample as SampleRow
from cuprof.store.models import Timing as TimingRow
from cuprof.store.rows import insert_row

_FIND = (
    sa.select(Trial.id, Trial.state, SweepTrial.device_id)
    .join(SweepTrial, SweepTrial.trial_id == Trial.id)
    .where(SweepTrial.sweep_id == sa.bindparam("sweep"), Trial.identity == sa.bindparam("identity"))
)


def record(connection: Connection, sweep_id: int, outcome: Outcome) -> int:
    """Write a run and make it the one that the sweep goes by; see `Store.record`."""
    trial = connection.execute(_FIND, {"sweep": sweep_id, "identity": outcome.identity}).first()
    if trial is None:
        raise StoreError(f"trial {outcome.identity} is not among those enlisted for sweep {sweep_id}")
    run = {
        "trial_id": trial.id,
        "sweep_id": sweep_id,
        "device_id": trial.device_id,
        "state": outcome.state.value,
        "phase": outcome.phase,
        "message": outcome.message,
        "log": outcome.log,
        "started_at": outcome.started_at,
        "duration_ns": outcome.duration_ns,
        "recorded_at": time.time(),
        **_check_columns(outcome.check),
        **_build_columns(outcome.build),
    }
    run_id = insert_row(connection, Run, run)
    for timing in outcome.timings:
        _record_timing(connection, run_id, timing)
    if outcome.state is not State.SKIPPED or trial.state in (State.PLANNED, State.SKIPPED):
        connection.execute(
            sa.update(Trial).where(Trial.id == trial.id).values(state=outcome.state.value, message=outcome.message)
        )
    connection.execute(
        sa.update(SweepTrial)
        .where(SweepTrial.sweep_id == sweep_id, SweepTrial.trial_id == trial.id)
        .values(run_id=run_id, reused=False)
    )
    return run_id


def list_medians(connection: Connection, sweep_id: int) -> dict[str, dict[str, float | None]]:
    """Return identity → measure → median of the runs that a sweep goes by; see `Store.list_medians`."""
    rows = connection.execute(
        sa.select(Trial.identity, TimingRow.measure, TimingRow.median_ns)
        .join(SweepTrial, SweepTrial.trial_id == Trial.id)
        .join(TimingRow, TimingRow.run_id == SweepTrial.run_id)
        .where(SweepTrial.sweep_id == sweep_id)
    )
    found: dict[str, dict[str, float | None]] = {}
    for identity, measure, median_ns in rows:
        found.setdefault(identity, {})[measure] = median_ns
    return found


def _record_timing(connection: Connection, run_id: int, timing: Timing) -> None:
    summary = timing.summary
    row = {
        "run_id": run_id,
        "measure": timing.measure.value,
        "method": timing.method,
        "stopped_by": timing.stopped_by,
        "sample_count": summary.count,
        "excluded_count": summary.excluded,
        **{name: getattr(summary, name) for name in _FIGURES},
        "details": timing.details,
        "rotation": timing.rotation,
        **{name: getattr(timing.energy, name, None) for name in _ENERGY},
    }
    timing_id = insert_row(connection, TimingRow, row)
    samples = [
        {
            "timing_id": timing_id,
            "ordinal": ordinal,
            "round": sample.round,
            "duration_ns": sample.duration_ns,
            "sm_clock_mhz": sample.sm_clock_mhz,
            "excluded": sample.excluded,
        }
        for ordinal, sample in enumerate(timing.samples)
    ]
    if samples:
        connection.execute(sa.insert(SampleRow), samples)


_ENERGY = ("energy_j", "mean_w", "idle_w")
_FIGURES = (
    "median_ns",
    "low_ns",
    "high_ns",
    "confidence",
    "mean_ns",
    "stdev_ns",
    "min_ns",
    "max_ns",
    "q1_ns",
    "q3_ns",
)


def _check_columns(check: Check | None) -> dict[str, Any]:
    return {
        "check_passed": None if check is None else bool(check.passed),
        "check_error": None if check is None else check.error,
        "check_error_absolute": None if check is None else check.error_absolute,
        "check_error_relative": None if check is None else check.error_relative,
        "check_message": None if check is None else check.message,
        # A seed may be wider than 64 bits, the widest integer of the databases.
        "check_seed": None if check is None else str(check.seed),
    }


def _build_columns(build: BuildFacts | None) -> dict[str, Any]:
    return {
        "build_registers": None if build is None else build.registers,
        "build_shared_bytes": None if build is None else build.shared_bytes,
        "build_spill_bytes": None if build is None else build.spill_bytes,
        "build_cached": None if build is None else bool(build.cached),
        "build_ns": None if build is None else build.build_ns,
        "build_log": None if build is None else build.log,
    }
