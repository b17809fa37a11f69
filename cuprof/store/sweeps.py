"""Sweeps and the devices they ran on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError, UsageError
from cuprof.core.records import Calibration, DeviceFacts, State, SweepFacts
from cuprof.core.text import hide_in_command, hide_in_data
from cuprof.store import stations
from cuprof.store import tables as t
from cuprof.store.processes import Process, this_process
from cuprof.store.refusals import SWEEP_ENDS
from cuprof.store.rows import columns_of, insert_row, save, upsert
from cuprof.store.types import fingerprint


def begin(connection: Connection, facts: SweepFacts, shared: bool = False, since: float = 0.0) -> int:
    """Return the sweep to write to: the newest unfinished one of the same plan, or a new one.

    An unfinished sweep is continued when its process has ended or been silent for a lease, or is this process.

    Args:
        shared: join a sweep that others work on.
        since: join one that others have finished since this time, too; 0 for none.

    Raises:
        UsageError: that process is alive on this host, or others work on the sweep.
    """
    unfinished = (
        sa.select(*(t.sweep.c[name] for name in ("id", "state", "process_host", "process_id", "process_started")))
        .where(t.sweep.c.plan_hash == facts.plan_hash, t.sweep.c.state != "finished")
        .order_by(t.sweep.c.started_at.desc(), t.sweep.c.id.desc())
    )
    for row in connection.execute(unfinished).all() if shared else ():
        if stations.list_present(connection, row.id):
            return int(row.id)  # without the lock, for which hundreds of processes would wait that start together
    lock(connection, facts.plan_hash)
    me, now = this_process(), stations.clock(connection)
    shown = {"command_line": hide_in_command(facts.command_line), "configuration": hide_in_data(facts.configuration)}
    described = columns_of(t.sweep, facts, **shown)
    begun = described.pop("started_at") or now
    described |= {"state": "running", "finished_at": None}
    described |= {"process_host": me.host, "process_id": me.pid, "process_started": me.started}
    for key, state, *process in connection.execute(unfinished).all():
        others = stations.list_present(connection, key)
        if shared and others:
            return int(key)
        if state == "running" and not _may_continue(connection, key, Process(*process), bool(others)):
            continue
        _forget_skipped(connection, key)
        values = {**described, "resumed_at": now, "invocations": t.sweep.c.invocations + 1}
        connection.execute(sa.update(t.sweep).where(t.sweep.c.id == key).values(**values))
        return int(key)
    if since and (done := find_finished(connection, facts.plan_hash, since)) is not None:
        return done
    return insert_row(connection, t.sweep, {**described, "invocations": 1, "started_at": begun})


def _may_continue(connection: Connection, sweep_id: int, process: Process, has_others: bool) -> bool:
    """Return whether this process may continue a sweep that another one left running.

    False means that it may be alive on another host; a new sweep reuses its trials anyway.
    """
    me = this_process()
    if process == me:
        return True
    # Only of a sweep that ever had stations does the lack of present ones prove that it is idle.
    is_known = connection.scalar(sa.select(t.station.c.id).where(t.station.c.sweep_id == sweep_id).limit(1)) is not None
    if has_others or (process.is_alive() and not is_known):
        raise UsageError(
            f"the same sweep is running (pid {process.pid}, sweep {sweep_id}); let it end or stop it first"
        )
    return process.host == me.host or is_known


def join(connection: Connection, facts: SweepFacts, names: Sequence[str], since: float = 0.0) -> tuple[int, list[int]]:
    """Begin a sweep, or join one that others work on, and enter stations into it.

    Args:
        names: the stations' names, for people.
        since: join one that others have finished since this time, too; 0 for none.

    Returns:
        The sweep, and the stations' keys in the order of their names.
    """
    sweep_id = begin(connection, facts, shared=True, since=since)
    return sweep_id, stations.join(connection, sweep_id, names)


def find_finished(connection: Connection, plan_hash: str, since: float) -> int | None:
    """Return the newest sweep of a plan if it is finished and was so no earlier than `since`, else None."""
    lock(connection, plan_hash)  # one that is about to begin has begun
    newest = connection.execute(
        sa.select(t.sweep.c.id, t.sweep.c.state, t.sweep.c.finished_at)
        .where(t.sweep.c.plan_hash == plan_hash)
        .order_by(t.sweep.c.started_at.desc(), t.sweep.c.id.desc())
        .limit(1)
    ).first()
    if newest is None or newest.state != "finished" or (newest.finished_at or 0.0) < since:
        return None
    return int(newest.id)


def read_start(connection: Connection, sweep_id: int) -> float:
    """Return when a sweep began. Together with its plan this distinguishes it from every other sweep."""
    return float(connection.execute(sa.select(t.sweep.c.started_at).where(t.sweep.c.id == sweep_id)).scalar_one())


def lock(connection: Connection, what: str, *, shared: bool = False, wait: bool = True) -> bool:
    """Hold a named lock until the transaction ends; on SQLite every writing transaction holds all of them.

    Args:
        shared: holders of a shared lock do not wait for one another.
        wait: otherwise return False where somebody else holds it.
    """
    if connection.dialect.name != "postgresql":
        return True
    name = f"pg_{'' if wait else 'try_'}advisory_xact_lock{'_shared' if shared else ''}"
    return connection.scalar(sa.select(getattr(sa.func, name)(sa.func.hashtext(what)))) is not False


def _forget_skipped(connection: Connection, sweep_id: int) -> None:
    """Detach skipped runs from a sweep that continues, because their trials are tried again."""
    skipped = sa.select(t.run.c.id).where(t.run.c.sweep_id == sweep_id, t.run.c.state == State.SKIPPED.value)
    connection.execute(
        sa.update(t.sweep_trial)
        .where(t.sweep_trial.c.sweep_id == sweep_id, t.sweep_trial.c.run_id.in_(skipped))
        .values(run_id=None, station_id=None)
    )


def finish(connection: Connection, sweep_id: int, state: str) -> None:
    """Store that a sweep ended, unless others continue with it.

    Args:
        state: "finished" (never continued) or "interrupted". A finished sweep stays finished, because an interrupt may
            arrive after the last trial.
    """
    if state not in SWEEP_ENDS:
        raise ValueError(f"a sweep ends 'finished' or 'interrupted', not {state!r}")
    before = connection.scalar(sa.select(t.sweep.c.state).where(t.sweep.c.id == sweep_id))
    if before is None:
        raise StoreError(f"there is no sweep {sweep_id} in the database")
    if state == "interrupted" and (before == "finished" or stations.list_present(connection, sweep_id)):
        return
    values = {"state": state, "finished_at": stations.clock(connection)}
    connection.execute(sa.update(t.sweep).where(t.sweep.c.id == sweep_id).values(**values))


def save_device(connection: Connection, facts: DeviceFacts) -> int:
    """Insert the device, or update its ordinal, memory and details, and return its key."""
    marks = mark_device(facts.backend, facts.name, facts.uuid or f"#{facts.index}", dict(facts.identity))
    row = columns_of(t.device, facts, **marks, ordinal=facts.index)
    changing = ["ordinal", "memory_bytes", "details"]
    return save(connection, t.device, [row], key=["fingerprint"], update=changing)[row["fingerprint"]]


def mark_device(backend: str, name: str, uuid: str, identity: dict[str, Any]) -> dict[str, str]:
    """Return the hashes of a device: of this one card, and of all cards whose timings are comparable."""
    return {
        "fingerprint": fingerprint([backend, name, uuid, identity]),
        "comparable": fingerprint([backend, name, identity]),
    }


def save_calibration(connection: Connection, sweep_id: int, facts: DeviceFacts, calibration: Calibration) -> None:
    """Store what was measured of a device in this sweep, in place of what was stored before."""
    place = {"sweep_id": sweep_id, "device_id": save_device(connection, facts), "measured_at": time.time()}
    row = columns_of(t.calibration, calibration, **place)
    key = ["sweep_id", "device_id"]
    upsert(connection, t.calibration, [row], key=key, update=[name for name in row if name not in key])
