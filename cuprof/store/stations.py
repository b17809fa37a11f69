"""The stations that work on a sweep, and which of its trials each has claimed.

A process renews its stations' leases every few seconds. A station that has not been seen for `LEASE_S`, or whose
process is known to have ended, has lost its claims: others may take its trials over, and what it still reports of them
is dropped. Times are the server's, where there is a server.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import State
from cuprof.store import tables as t
from cuprof.store.processes import Process, this_process
from cuprof.store.rows import among, insert_row

LEASE_S = 60.0
BEAT_S = 5.0
_PRESENT = sa.select(
    *(t.station.c[name] for name in ("id", "seen_at", "process_host", "process_id", "process_started"))
).where(t.station.c.sweep_id == sa.bindparam("sweep"), t.station.c.left_at.is_(None))


@dataclass(frozen=True)
class Claim:
    """The answer to a claim, by the trials' identities; trials in neither field are claimed by other stations.

    Args:
        granted: now claimed by the station.
        done: state and message of the run that the sweep goes by.
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
    return [insert_row(connection, t.station, {**row, "name": name}) for name in names]


def beat(connection: Connection, doing: Mapping[int, str]) -> None:
    """Renew the leases of stations, and store what each is doing."""
    for station_id, text in doing.items():
        values = {"seen_at": clock(connection), "doing": text}
        connection.execute(sa.update(t.station).where(t.station.c.id == station_id).values(**values))


def leave(connection: Connection, station_ids: Collection[int]) -> None:
    """Release what these stations have claimed and not done."""
    connection.execute(
        sa.update(t.station)
        .where(t.station.c.id.in_(station_ids), t.station.c.left_at.is_(None))
        .values(left_at=clock(connection), doing="")
    )


def list_present(connection: Connection, sweep_id: int) -> list[int]:
    """Return the stations that work on a sweep; those whose lease or process has ended are marked as left."""
    rows = connection.execute(_PRESENT, {"sweep": sweep_id})
    now, me = clock(connection), this_process()
    present: list[int] = []
    gone: list[int] = []
    alive = {me: True}  # a process has many stations, and one look at it takes as long as a query
    for key, seen_at, host, pid, started in rows.all():
        process = Process(host, pid, started)
        if process not in alive:
            alive[process] = process.host != me.host or process.is_alive()
        (present if now - seen_at < LEASE_S and alive[process] else gone).append(key)
    if gone:
        leave(connection, gone)
    return present


def is_known(connection: Connection, sweep_id: int) -> bool:
    """Return whether a sweep ever had stations; only then does the lack of present ones prove that it is idle."""
    return connection.execute(sa.select(t.station.c.id).where(t.station.c.sweep_id == sweep_id)).first() is not None


def claim(connection: Connection, sweep_id: int, station_id: int, places: Mapping[str, int]) -> Claim:
    """Claim those of some trials that are not done and that no present station has claimed.

    Args:
        places: identity → the trial's place in the sweep. Where another process has put another trial in that place, as
            `exchange` does, that one is claimed.
    """
    present = list_present(connection, sweep_id)
    if station_id not in present:  # its process was suspended for longer than a lease and has resumed
        values = {"seen_at": clock(connection), "left_at": None}
        connection.execute(sa.update(t.station).where(t.station.c.id == station_id).values(**values))
        present.append(station_id)
    rows = _lock_members(connection, sweep_id, among(connection, t.trial.c.identity, places))
    members = {row.identity: row for row in rows}
    if away := {place: identity for identity, place in places.items() if identity not in members}:
        rows = _lock_members(connection, sweep_id, among(connection, t.sweep_trial.c.ordinal, away))
        members |= {away[row.ordinal]: row for row in rows}
    others = set(present) - {station_id}
    free = {identity: row for identity, row in members.items() if row.run_id is None and row.station_id not in others}
    keys = [row.trial_id for row in free.values()]
    connection.execute(
        sa.update(t.sweep_trial)
        .where(t.sweep_trial.c.sweep_id == sweep_id, among(connection, t.sweep_trial.c.trial_id, keys))
        .values(station_id=station_id)
    )
    ended = {identity: row.run_id for identity, row in members.items() if row.run_id is not None}
    return Claim(frozenset(free), _read_ends(connection, ended), len(present))


def _lock_members(connection: Connection, sweep_id: int, chosen: sa.ColumnElement[bool]) -> Sequence[Any]:
    columns = (t.sweep_trial.c[name] for name in ("trial_id", "ordinal", "run_id", "station_id"))
    return connection.execute(
        sa.select(t.trial.c.identity, *columns)
        .join(t.trial, t.trial.c.id == t.sweep_trial.c.trial_id)
        .where(t.sweep_trial.c.sweep_id == sweep_id, chosen)
        .order_by(t.sweep_trial.c.trial_id)  # in one order everywhere, so that no two wait for each other crosswise
        .with_for_update(of=t.sweep_trial)
    ).all()


def _read_ends(connection: Connection, ended: Mapping[str, int]) -> dict[str, tuple[State, str]]:
    # A query of its own: joined to rows with awaited locks, PostgreSQL would show other tables as before the wait.
    chosen = among(connection, t.run.c.id, ended.values())
    rows = connection.execute(sa.select(t.run.c.id, t.run.c.state, t.run.c.message).where(chosen))
    runs = {key: (State(state), message) for key, state, message in rows}
    return {identity: runs[key] for identity, key in ended.items()}


def clock(connection: Connection) -> float:
    """Return the time that all processes with this database share, in seconds since the epoch."""
    if connection.dialect.name == "postgresql":
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return time.time()
