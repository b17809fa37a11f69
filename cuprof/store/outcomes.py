"""Runs with their timings and samples, written in one transaction a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError
from cuprof.core.records import BuildFacts, Check, Outcome, Sample, State, Timing
from cuprof.store import ranking
from cuprof.store import tables as t
from cuprof.store.rows import columns_of, insert_row

_FIND = (
    sa.select(t.trial.c.id, t.trial.c.state, *(t.sweep_trial.c[name] for name in ("device_id", "run_id", "station_id")))
    .join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    .where(t.sweep_trial.c.sweep_id == sa.bindparam("sweep"), t.trial.c.identity == sa.bindparam("identity"))
    .with_for_update(of=t.sweep_trial)
)
SET_STATE = (
    sa.update(t.trial)
    .where(t.trial.c.id == sa.bindparam("trial"))
    .values(state=sa.bindparam("became"), message=sa.bindparam("said"))
)


@dataclass(frozen=True)
class Origin:
    """Where an outcome was measured, and for which claim.

    Args:
        station_id: the station that has claimed the trial; None where claims do not matter.
        device_id: key of the device it ran on, where that may not be the one that the trial was planned for.
        job: equal for everything that was measured of a problem one after another.
        again: the sweep goes by another run of the trial, and keeps it.
    """

    station_id: int | None = None
    device_id: int | None = None
    job: str | None = None
    again: bool = False


NOWHERE = Origin()


def record(connection: Connection, sweep_id: int, outcome: Outcome, origin: Origin = NOWHERE) -> int | None:
    """Write how a trial ended, with all samples, and return the run's key.

    Where another station has taken the trial over, nothing is written and None is returned.

    The sweep goes by this run from now on, and the trial takes its state, except that a skipped run does not replace
    the state of an earlier one that was not skipped. If the trial was skipped before for the same reason, the sweep
    goes by that run and nothing is added, so that pages of unchanged results stay as they are.

    Raises:
        StoreError: the trial was not enlisted for this sweep.
    """
    trial = connection.execute(_FIND, {"sweep": sweep_id, "identity": outcome.identity}).first()
    if trial is None:
        raise StoreError(f"trial {outcome.identity} is not among those enlisted for sweep {sweep_id}")
    is_claimed = origin.station_id is not None and not origin.again
    if is_claimed and (trial.station_id != origin.station_id or trial.run_id is not None):
        return None
    member = t.sweep_trial.c.sweep_id == sweep_id, t.sweep_trial.c.trial_id == trial.id
    go_by = sa.update(t.sweep_trial).where(*member)
    if outcome.state is State.SKIPPED and trial.state == State.SKIPPED and not origin.again:
        skipped = sa.select(t.run.c.id, t.run.c.sweep_id).where(t.run.c.trial_id == trial.id)
        reason = t.run.c.state == State.SKIPPED, t.run.c.message == outcome.message, t.run.c.log == outcome.log
        if earlier := connection.execute(skipped.where(*reason).order_by(t.run.c.id.desc())).first():
            connection.execute(go_by.values(run_id=earlier.id, reused=earlier.sweep_id != sweep_id))
            return int(earlier.id)
    place = {
        "trial_id": trial.id,
        "sweep_id": sweep_id,
        "device_id": trial.device_id if origin.device_id is None else origin.device_id,
        "job": origin.job,
        "recorded_at": time.time(),
    }
    found = {**_prefixed("check_", outcome.check), **_prefixed("build_", outcome.build)}
    found["build_sass_hash"] = found.get("build_sass_hash") or None
    if outcome.check is not None:  # a seed may be wider than 64 bits, the widest integer of the databases
        found["check_seed"] = str(outcome.check.seed)
    run_id = insert_row(connection, t.run, columns_of(t.run, outcome, **place, **found))
    for timing in outcome.timings:
        _record_timing(connection, run_id, timing)
    if not origin.again:
        if outcome.state is not State.SKIPPED or trial.state in (State.PLANNED, State.SKIPPED):
            values = {"trial": trial.id, "became": outcome.state.value, "said": outcome.message}
            connection.execute(SET_STATE, values)
        connection.execute(go_by.values(run_id=run_id, reused=False))
    ranking.refresh(connection, trial.id)
    return run_id


def record_all(connection: Connection, sweep_id: int, outcomes: Sequence[tuple[Outcome, Origin]]) -> list[int | None]:
    """Write how several trials ended, all in one transaction; see `record`."""
    return [record(connection, sweep_id, outcome, origin) for outcome, origin in outcomes]


def _record_timing(connection: Connection, run_id: int, timing: Timing) -> None:
    summary = timing.summary
    figures = columns_of(t.timing, summary, sample_count=summary.count, excluded_count=summary.excluded)
    figures |= columns_of(t.timing, timing.energy)
    timing_id = insert_row(connection, t.timing, columns_of(t.timing, timing, run_id=run_id, **figures))
    if timing.samples:
        insert_row(connection, t.samples, {"timing_id": timing_id, **listed(timing.samples)})


def listed(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the columns of a timing's samples; a fact that no sample has is NULL."""
    clocks = [sample.sm_clock_mhz for sample in samples]
    exclusions = [sample.excluded for sample in samples]
    durations = [sample.duration_ns for sample in samples]
    return {
        "durations_ns": [None if duration != duration else duration for duration in durations],
        "rounds": [sample.round for sample in samples],
        "sm_clocks_mhz": clocks if any(clock is not None for clock in clocks) else None,
        "exclusions": exclusions if any(exclusions) else None,
    }


def _prefixed(prefix: str, facts: Check | BuildFacts | None) -> dict[str, Any]:
    known = vars(facts) if facts is not None else {}
    return {prefix + name.removeprefix(prefix): value for name, value in known.items()}
