"""Runs with their timings and samples, written in one transaction a run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError
from cuprof.records import BuildFacts, Check, DeviceFacts, Outcome, State, Timing
from cuprof.store.models import Run, SweepTrial, Trial
from cuprof.store.models import Sample as SampleRow
from cuprof.store.models import Timing as TimingRow
from cuprof.store.rows import columns_of, insert_row
from cuprof.store.sweeps import save_device

_FIND = (
    sa.select(Trial.id, Trial.state, SweepTrial.device_id, SweepTrial.run_id, SweepTrial.station_id)
    .join(SweepTrial, SweepTrial.trial_id == Trial.id)
    .where(SweepTrial.sweep_id == sa.bindparam("sweep"), Trial.identity == sa.bindparam("identity"))
    .with_for_update(of=SweepTrial)
)


@dataclass(frozen=True)
class Origin:
    """Say where an outcome comes from.

    Args:
        station_id: what has claimed the trial; None where nobody else may have.
        device: what it ran on, where that is not the device that the trial was planned for.
        job: equal for what was measured in one job.
        again: the trial has a run that the sweep goes by, and keeps it.
    """

    station_id: int | None = None
    device: DeviceFacts | None = None
    job: str | None = None
    again: bool = False


NOWHERE = Origin()


def record(connection: Connection, sweep_id: int, outcome: Outcome, origin: Origin = NOWHERE) -> int | None:
    """Write what became of a trial, with all samples, and return the run's key.

    Nothing is written, and None returned, where another station has taken the trial over.

    The run becomes the one that this sweep goes by, and its state the trial's (a skipped run does not hide the
    state of an earlier one that was more than that).

    Raises:
        StoreError: the trial was not enlisted for this sweep.
    """
    trial = connection.execute(_FIND, {"sweep": sweep_id, "identity": outcome.identity}).first()
    if trial is None:
        raise StoreError(f"trial {outcome.identity} is not among those enlisted for sweep {sweep_id}")
    is_claimed = origin.station_id is not None and not origin.again
    if is_claimed and (trial.station_id != origin.station_id or trial.run_id is not None):
        return None
    place = {
        "trial_id": trial.id,
        "sweep_id": sweep_id,
        "device_id": trial.device_id if origin.device is None else save_device(connection, origin.device),
        "job": origin.job,
        "recorded_at": time.time(),
    }
    found = {**_prefixed("check_", outcome.check), **_prefixed("build_", outcome.build)}
    if outcome.check is not None:  # a seed may be wider than 64 bits, the widest integer of the databases
        found["check_seed"] = str(outcome.check.seed)
    run_id = insert_row(connection, Run, columns_of(Run, outcome, **place, **found))
    for timing in outcome.timings:
        _record_timing(connection, run_id, timing)
    if origin.again:
        return run_id
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


def _record_timing(connection: Connection, run_id: int, timing: Timing) -> None:
    summary = timing.summary
    figures = columns_of(TimingRow, summary, sample_count=summary.count, excluded_count=summary.excluded)
    figures |= columns_of(TimingRow, timing.energy)
    timing_id = insert_row(connection, TimingRow, columns_of(TimingRow, timing, run_id=run_id, **figures))
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


def _prefixed(prefix: str, facts: Check | BuildFacts | None) -> dict[str, Any]:
    known = vars(facts) if facts is not None else {}
    return {prefix + name.removeprefix(prefix): value for name, value in known.items()}
