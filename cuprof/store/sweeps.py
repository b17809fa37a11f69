"""Sweeps, the devices they ran on, and whether the process that runs one is still alive."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError, UsageError
from cuprof.passwords import hide_in_command, hide_in_data
from cuprof.records import Calibration, DeviceFacts, SweepFacts
from cuprof.store.models import Calibration as CalibrationRow
from cuprof.store.models import Device, Sweep
from cuprof.store.rows import fingerprint, insert_row, upsert

SAME_START_SECONDS = 2.0
"""Start times are computed from the boot time, which moves when the clock is set; pids do not return so fast."""


@dataclass(frozen=True)
class Process:
    """Name one process for good: a pid alone is used again."""

    host: str
    pid: int
    started: float

    def is_alive(self) -> bool:
        """Return whether this very process still runs; False where that cannot be known (another host)."""
        import psutil

        if self.host != platform.node():
            return False
        try:
            process = psutil.Process(self.pid)
            alive: bool = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return alive and abs(process.create_time() - self.started) < SAME_START_SECONDS
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True


def this_process() -> Process:
    """Return the process that runs this code."""
    import psutil

    return Process(platform.node(), os.getpid(), psutil.Process().create_time())


def begin(connection: Connection, facts: SweepFacts) -> int:
    """Resume the newest unfinished sweep of the same plan, or make a new one; see `Store.begin_sweep`."""
    if connection.dialect.name == "postgresql":  # SQLite's write transaction excludes other writers already
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(facts.plan_hash))))
    me, now = this_process(), time.time()
    mine = {
        "state": "running",
        "process_host": me.host,
        "process_id": me.pid,
        "process_started": me.started,
        "finished_at": None,
    }
    described = {
        "name": facts.name,
        "experiment": facts.experiment,
        "family": facts.family,
        "baseline": facts.baseline,
        "purpose": facts.purpose,
        "plan_hash": facts.plan_hash,
        "command_line": hide_in_command(facts.command_line),
        "configuration": hide_in_data(facts.configuration),
        "host": facts.host,
        "git": facts.git,
        "software": facts.software,
    }
    unfinished = connection.execute(
        sa.select(Sweep.id, Sweep.state, Sweep.process_host, Sweep.process_id, Sweep.process_started)
        .where(Sweep.plan_hash == facts.plan_hash, Sweep.state != "finished")
        .order_by(Sweep.id.desc())
    ).all()
    for row in unfinished:
        process = Process(row.process_host, row.process_id, row.process_started)
        if row.state == "running" and process != me:
            if process.is_alive():
                raise UsageError(
                    f"the same sweep is running (pid {process.pid}, sweep {row.id}); let it end or stop it first"
                )
            if process.host != me.host:
                continue  # it may be alive there, and its trials are reused anyhow
        connection.execute(
            sa.update(Sweep)
            .where(Sweep.id == row.id)
            .values(**described, **mine, resumed_at=now, invocations=Sweep.invocations + 1)
        )
        return int(row.id)
    return insert_row(connection, Sweep, {**described, **mine, "invocations": 1, "started_at": now})


def finish(connection: Connection, sweep_id: int, state: str) -> None:
    """Set the state that a sweep ended with."""
    if state not in ("finished", "interrupted"):
        raise ValueError(f"a sweep ends 'finished' or 'interrupted', not {state!r}")
    changed = connection.execute(
        sa.update(Sweep).where(Sweep.id == sweep_id).values(state=state, finished_at=time.time())
    )
    if changed.rowcount != 1:
        raise StoreError(f"there is no sweep {sweep_id} in the database")


def save_device(connection: Connection, facts: DeviceFacts) -> int:
    """Insert the device, or bring its details up to date, and return its key."""
    identity = dict(facts.identity)
    row = {
        "fingerprint": fingerprint([facts.backend, facts.name, facts.uuid or f"#{facts.index}", identity]),
        "comparable": fingerprint([facts.backend, facts.name, identity]),
        "backend": facts.backend,
        "ordinal": facts.index,
        "name": facts.name,
        "uuid": facts.uuid,
        "memory_bytes": facts.memory_bytes,
        "identity": identity,
        "details": facts.details,
    }
    upsert(connection, Device, [row], key=["fingerprint"], update=["ordinal", "memory_bytes", "details"])
    return int(connection.execute(sa.select(Device.id).where(Device.fingerprint == row["fingerprint"])).scalar_one())


def save_calibration(connection: Connection, sweep_id: int, device_id: int, calibration: Calibration) -> None:
    """Keep what was measured of the device; a resumed sweep replaces the figures of its first start."""
    row = {
        "sweep_id": sweep_id,
        "device_id": device_id,
        "backend": calibration.backend,
        "read_bandwidth": calibration.read_bandwidth,
        "event_overhead_ns": calibration.event_overhead_ns,
        "details": calibration.details,
        "measured_at": time.time(),
    }
    key = ["sweep_id", "device_id"]
    upsert(connection, CalibrationRow, [row], key=key, update=[name for name in row if name not in key])


def reuse_calibration(connection: Connection, sweep_id: int, device_id: int) -> Calibration | None:
    """Copy the newest calibration of a device from a sweep of the same host; its `measured_at` stays what it was.

    Returns:
        It, or None where there is none.
    """
    host = sa.select(Sweep.host).where(Sweep.id == sweep_id).scalar_subquery()
    found = connection.execute(
        sa.select(CalibrationRow.__table__)
        .join(Sweep, Sweep.id == CalibrationRow.sweep_id)
        .where(CalibrationRow.device_id == device_id, Sweep.host == host)
        .order_by(CalibrationRow.measured_at.desc())
        .limit(1)
    ).one_or_none()
    if found is None:
        return None
    if found.sweep_id != sweep_id:
        row = {**found._asdict(), "sweep_id": sweep_id}
        upsert(connection, CalibrationRow, [row], key=["sweep_id", "device_id"], update=["measured_at"])
    return Calibration(found.backend, found.read_bandwidth, found.event_overhead_ns, found.details or {})
