"""Sweeps and the devices they ran on."""

from __future__ import annotations

import time
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError, UsageError
from cuprof.core.records import Calibration, DeviceFacts, State, SweepFacts
from cuprof.core.text import hide_in_command, hide_in_data
from cuprof.store import stations
from cuprof.store.columns import plain
from cuprof.store.models import Calibration as CalibrationRow
from cuprof.store.models import Device, Run, Sweep, SweepTrial
from cuprof.store.processes import Process, this_process
from cuprof.store.rows import columns_of, fingerprint, insert_row, upsert

ENDS = ("finished", "interrupted")
TOLD_ANEW = ("ordinal", "memory_bytes", "details")
"""What may change of a device; the latest counts."""
_FIND_DEVICE = sa.select(Device.id, *(getattr(Device, name) for name in TOLD_ANEW)).where(
    Device.fingerprint == sa.bindparam("mark")
)


def begin(connection: Connection, facts: SweepFacts, shared: bool = False) -> int:
    """Return the sweep to write to: the newest unfinished one of the same plan, or a new one.

    An unfinished sweep is taken up again when the process that ran it is gone, or silent, or was this one.

    Args:
        shared: join one that others work on.

    Raises:
        UsageError: that process is alive on this host, or others work on the sweep.
    """
    lock(connection, facts.plan_hash)
    me, now = this_process(), stations.clock(connection)
    mine = {
        "state": "running",
        "process_host": me.host,
        "process_id": me.pid,
        "process_started": me.started,
        "finished_at": None,
    }
    shown = {"command_line": hide_in_command(facts.command_line), "configuration": hide_in_data(facts.configuration)}
    described = columns_of(Sweep, facts, **shown)
    begun = described.pop("started_at") or now
    unfinished = connection.execute(
        sa.select(Sweep.id, Sweep.state, Sweep.process_host, Sweep.process_id, Sweep.process_started)
        .where(Sweep.plan_hash == facts.plan_hash, Sweep.state != "finished")
        .order_by(Sweep.started_at.desc(), Sweep.id.desc())
    ).all()
    for row in unfinished:
        process = Process(row.process_host, row.process_id, row.process_started)
        others = stations.list_present(connection, row.id)
        if shared and others:
            return int(row.id)
        if row.state == "running" and process != me:
            if others or (process.is_alive() and not stations.is_known(connection, row.id)):
                raise UsageError(
                    f"the same sweep is running (pid {process.pid}, sweep {row.id}); let it end or stop it first"
                )
            if process.host != me.host and not stations.is_known(connection, row.id):
                continue  # it may be alive there, and its trials are reused anyhow
        _forget_skipped(connection, row.id)
        connection.execute(
            sa.update(Sweep)
            .where(Sweep.id == row.id)
            .values(**described, **mine, resumed_at=now, invocations=Sweep.invocations + 1)
        )
        return int(row.id)
    return insert_row(connection, Sweep, {**described, **mine, "invocations": 1, "started_at": begun})


def read_start(connection: Connection, sweep_id: int) -> float:
    """Return when a sweep began; with its plan this tells it from every other."""
    return float(connection.execute(sa.select(Sweep.started_at).where(Sweep.id == sweep_id)).scalar_one())


def join(connection: Connection, facts: SweepFacts, names: Sequence[str]) -> tuple[int, list[int]]:
    """Begin a sweep, or join one that others work on, and enter stations into it.

    Args:
        names: the stations', for people.

    Returns:
        The sweep, and the stations' keys in the order of their names.
    """
    sweep_id = begin(connection, facts, shared=True)
    return sweep_id, stations.join(connection, sweep_id, names)


def lock(connection: Connection, what: str, *, shared: bool = False, wait: bool = True) -> bool:
    """Let others who lock the same wait until the transaction's end; on SQLite all who write do.

    Args:
        shared: those who share it do not wait for one another.
        wait: else return False where another one has it.
    """
    if connection.dialect.name != "postgresql":
        return True
    name = f"pg_{'' if wait else 'try_'}advisory_xact_lock{'_shared' if shared else ''}"
    return connection.scalar(sa.select(getattr(sa.func, name)(sa.func.hashtext(what)))) is not False


def _forget_skipped(connection: Connection, sweep_id: int) -> None:
    """Let a sweep that goes on go by no run that was skipped, since that trial is tried again."""
    skipped = sa.select(Run.id).where(Run.sweep_id == sweep_id, Run.state == State.SKIPPED.value)
    connection.execute(
        sa.update(SweepTrial)
        .where(SweepTrial.sweep_id == sweep_id, SweepTrial.run_id.in_(skipped))
        .values(run_id=None, station_id=None)
    )


def finish(connection: Connection, sweep_id: int, state: str) -> None:
    """Note that a sweep ended: "finished" (never taken up again) or "interrupted", but while others go on with it.

    One that is finished stays so: an interrupt may come when the last trial is done.
    """
    if state not in ENDS:
        raise ValueError(f"a sweep ends 'finished' or 'interrupted', not {state!r}")
    before = connection.scalar(sa.select(Sweep.state).where(Sweep.id == sweep_id))
    if before is None:
        raise StoreError(f"there is no sweep {sweep_id} in the database")
    if state == "interrupted" and (before == "finished" or stations.list_present(connection, sweep_id)):
        return
    connection.execute(
        sa.update(Sweep).where(Sweep.id == sweep_id).values(state=state, finished_at=stations.clock(connection))
    )


def save_device(connection: Connection, facts: DeviceFacts) -> int:
    """Insert the device, or bring its details up to date, and return its key."""
    identity = dict(facts.identity)
    row = columns_of(
        Device,
        facts,
        fingerprint=fingerprint([facts.backend, facts.name, facts.uuid or f"#{facts.index}", identity]),
        comparable=fingerprint([facts.backend, facts.name, identity]),
        ordinal=facts.index,
    )
    told = [row[name] for name in TOLD_ANEW]
    found = connection.execute(_FIND_DEVICE, {"mark": row["fingerprint"]}).first()
    if found is None or [*found[1:-1], found[-1] or {}] != [*told[:-1], plain(told[-1])]:
        upsert(connection, Device, [row], key=["fingerprint"], update=TOLD_ANEW)
        found = connection.execute(_FIND_DEVICE, {"mark": row["fingerprint"]}).one()
    return int(found.id)


def save_calibration(connection: Connection, sweep_id: int, facts: DeviceFacts, calibration: Calibration) -> None:
    """Keep what was measured of a device in this sweep, in place of what was kept before."""
    place = {"sweep_id": sweep_id, "device_id": save_device(connection, facts), "measured_at": time.time()}
    row = columns_of(CalibrationRow, calibration, **place)
    key = ["sweep_id", "device_id"]
    upsert(connection, CalibrationRow, [row], key=key, update=[name for name in row if name not in key])


def reuse_calibration(connection: Connection, sweep_id: int, facts: DeviceFacts) -> Calibration | None:
    """Give the sweep what was last measured of this device on the sweep's host; return it, or None.

    Its `measured_at` stays what it was.
    """
    device_id = save_device(connection, facts)
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
