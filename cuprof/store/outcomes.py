"""Runs with their timings and samples: written in one transaction, read back as the records they were."""

from __future__ import annotations

import math
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError
from cuprof.records import BuildFacts, Check, Energy, Measure, Outcome, Sample, State, Summary, Timing
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


def get_outcome(connection: Connection, run_id: int) -> Outcome:
    """Return a run as it was recorded (times to the microsecond).

    Raises:
        StoreError: there is no such run.
    """
    found = (
        connection.execute(sa.select(Run, Trial.identity).join(Trial, Trial.id == Run.trial_id).where(Run.id == run_id))
        .mappings()
        .first()
    )
    if found is None:
        raise StoreError(f"there is no run {run_id} in the database")
    row = dict(found)
    timings = connection.execute(
        sa.select(TimingRow).where(TimingRow.run_id == run_id).order_by(TimingRow.id)
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


def _read_timing(connection: Connection, row: dict[str, Any]) -> Timing:
    samples = connection.execute(
        sa.select(SampleRow.round, SampleRow.duration_ns, SampleRow.sm_clock_mhz, SampleRow.excluded)
        .where(SampleRow.timing_id == row["id"])
        .order_by(SampleRow.ordinal)
    )
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


def _build_columns(build: BuildFacts | None) -> dict[str, Any]:
    return {
        "build_registers": None if build is None else build.registers,
        "build_shared_bytes": None if build is None else build.shared_bytes,
        "build_spill_bytes": None if build is None else build.spill_bytes,
        "build_cached": None if build is None else bool(build.cached),
        "build_ns": None if build is None else build.build_ns,
        "build_log": None if build is None else build.log,
    }


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


def _number(value: float | None) -> float:
    return math.nan if value is None else value
