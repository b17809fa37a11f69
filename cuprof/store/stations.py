"""Who works on a sweep, and who has claimed which of its trials.

A process says of its stations every few seconds that they are there. One that has not been seen for `LEASE_S`, or whose
process is known to be gone, has lost its claims: others may take its trials over, and what it should still have to say
of them is not kept. Times are those of the database's server, where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import State
from cuprof.store.models import Run, Station, SweepTrial, Trial
from cuprof.store.processes import Process, this_process
from cuprof.store.rows import among, insert_row

_PRESENT = sa.select(
    *(Station.id, Station.seen_at, Station.process_host, Station.process_id, Station.process_started)
).where(Station.sweep_id == sa.bindparam("sweep"), Station.left_at.is_(None))
LEASE_S = 60.0
BEAT_S = 5.0


@dataclass(frozen=True)
class Claim:
    """What came of asking for trials, by identity.

    Args:
        granted: are the station's now.
        done: have a run that the sweep goes by, whose state and message these are; all others are claimed elsewhere.
        stations: how many work on the sweep.
    """

    granted: frozenset[str]
    done: Mapping[str, tuple[State, str]]
    stations: int


def join(connection: Connection, sweep_id: int, names: Sequence[str]) -> list[int]:
    """Enter stations of this process into a sweep and return their keys."""
    me, now = this_process(), clock(connection)
    process = {"process_host": me.host, "process_id": me.pid, "process_started": me.started}
    row = {"sweep_id": sweep_id, **process, "doing": "", "joined_at": now, "seen_at": now}
    return [insert_row(connection, Station, {**row, "name": name}) for name in names]


def beat(connection: Connection, doing: Mapping[int, str]) -> None:
    """Say that stations are there, and what they do."""
    for station_id, text in doing.items():
        values = {"seen_at": clock(connection), "doing": text}
        connection.execute(sa.update(Station).where(Station.id == station_id).values(**values))


def leave(connection: Connection, station_ids: Collection[int]) -> None:
    """Give up whatever these stations have claimed and not done."""
    connection.execute(
        sa.update(Station)
        .where(Station.id.in_(station_ids), Station.left_at.is_(None))
        .values(left_at=clock(connection), doing="")
    )


def list_present(connection: Connection, sweep_id: int) -> list[int]:
    """Return the stations that work on a sweep; those whose process is gone are noted to have left."""
    rows = connection.execute(_PRESENT, {"sweep": sweep_id})
    now, me = clock(connection), this_process()
    present: list[int] = []
    gone: list[int] = []
    alive = {me: True}  # a process has many stations, and asking after one takes as long as a query
    for key, seen_at, host, pid, started in rows.all():
        process = Process(host, pid, started)
        if process not in alive:
            alive[process] = process.host != me.host or process.is_alive()
        (present if now - seen_at < LEASE_S and alive[process] else gone).append(key)
    if gone:
        leave(connection, gone)
    return present


def is_known(connection: Connection, sweep_id: int) -> bool:
    """Return whether a sweep's stations were ever told of, so that it is known when nobody works on it."""
    return connection.execute(sa.select(Station.id).where(Station.sweep_id == sweep_id)).first() is not None


def claim(connection: Connection, sweep_id: int, station_id: int, places: Mapping[str, int]) -> Claim:
    """Claim those of some trials that are not done and that nobody has claimed who is still there.

    Args:
        places: identity → the trial's place in the sweep. Where another process has put a trial in its place, as
            `exchange` does, that one is asked for.
    """
    present = list_present(connection, sweep_id)
    if station_id not in present:  # its process stood still for longer than a lease, and goes on
        now = clock(connection)
        connection.execute(sa.update(Station).where(Station.id == station_id).values(seen_at=now, left_at=None))
        present.append(station_id)
    rows = _lock_members(connection, sweep_id, among(connection, Trial.identity, places))
    members = {row.identity: row for row in rows}
    if away := {place: identity for identity, place in places.items() if identity not in members}:
        rows = _lock_members(connection, sweep_id, among(connection, SweepTrial.ordinal, away))
        members |= {away[row.ordinal]: row for row in rows}
    others = set(present) - {station_id}
    free = {identity: row for identity, row in members.items() if row.run_id is None and row.station_id not in others}
    keys = [row.trial_id for row in free.values()]
    connection.execute(
        sa.update(SweepTrial)
        .where(SweepTrial.sweep_id == sweep_id, among(connection, SweepTrial.trial_id, keys))
        .values(station_id=station_id)
    )
    ended = {identity: row.run_id for identity, row in members.items() if row.run_id is not None}
    # Asked for apart: beside a row whose lock was waited for, PostgreSQL shows other tables as they were before.
    chosen = among(connection, Run.id, ended.values())
    runs = {row.id: row for row in connection.execute(sa.select(Run.id, Run.state, Run.message).where(chosen))}
    done = {identity: (State(runs[key].state), runs[key].message) for identity, key in ended.items()}
    return Claim(frozenset(free), done, len(present))


def _lock_members(connection: Connection, sweep_id: int, chosen: sa.ColumnElement[bool]) -> Sequence[Any]:
    columns = (SweepTrial.trial_id, SweepTrial.ordinal, SweepTrial.run_id, SweepTrial.station_id)
    return connection.execute(
        sa.select(Trial.identity, *columns)
        .join(Trial, Trial.id == SweepTrial.trial_id)
        .where(SweepTrial.sweep_id == sweep_id, chosen)
        .order_by(SweepTrial.trial_id)  # in one order everywhere, so that no two wait for each other crosswise
        .with_for_update(of=SweepTrial)
    ).all()


def clock(connection: Connection) -> float:
    """Return the time that all who share the database go by, in seconds since the epoch."""
    if connection.dialect.name == "postgresql":
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return time.time()
