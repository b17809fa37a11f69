"""The stations that work on a sweep, and which of its trials each has claimed.

A process renews its stations' leases every few seconds. A station that has not been seen for `LEASE_S`, or whose
process is known to have ended, has lost its claims: others may take its trials over, and what it still reports of them
is dropped. Times are the server's, where there is a server.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store import tables as t
from cuprof.store.processes import Process, this_process
from cuprof.store.rows import insert_row, is_among, list_of
from cuprof.store.types import BigId

LEASE_S = 60.0
BEAT_S = 5.0


@dataclass(frozen=True)
class Claim:
    """The answer to a claim.

    Args:
        granted: identities of the trials that are now claimed by the station.
        stations: how many work on the sweep.
    """

    granted: frozenset[str]
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
        mine = sa.update(t.station).where(t.station.c.id == station_id)
        connection.execute(mine.values(seen_at=clock(connection), doing=text))


def leave(connection: Connection, station_ids: Collection[int]) -> None:
    """Release what these stations have claimed and not done."""
    connection.execute(
        sa.update(t.station)
        .where(t.station.c.id.in_(station_ids), t.station.c.left_at.is_(None))
        .values(left_at=clock(connection), doing="")
    )


def list_present(connection: Connection, sweep_id: int) -> list[int]:
    """Return the stations that work on a sweep; those whose lease or process has ended are marked as left."""
    station = t.station.c
    columns = station.id, station.seen_at, station.process_host, station.process_id, station.process_started
    rows = connection.execute(sa.select(*columns).where(station.sweep_id == sweep_id, station.left_at.is_(None))).all()
    now, me = clock(connection), this_process()
    present: list[int] = []
    gone: list[int] = []
    alive = {me: True}  # a process has many stations, and one look at it takes as long as a query
    for key, seen_at, *place in rows:
        process = Process(*place)
        if process not in alive:
            alive[process] = process.host != me.host or process.is_alive()
        (present if now - seen_at < LEASE_S and alive[process] else gone).append(key)
    if gone:
        leave(connection, gone)
    return present


def claim(connection: Connection, sweep_id: int, station_id: int, places: Mapping[str, int]) -> Claim:
    """Claim those of some trials that are not done and that no present station has claimed.

    Args:
        places: identity → the trial's place in the sweep. Where another process has put another trial in that place, as
            `exchange` does, that one is claimed.
    """

    def take(column: sa.Column[Any], values: Iterable[Any]) -> Sequence[Any]:
        asked = {"sweep": sweep_id, "station": station_id, "chosen": list(values)}
        return connection.execute(_take(connection.dialect.name, column), asked).all()

    rows = taken = take(t.trial.c.identity, places)
    if len(taken) < len(places):
        asked = {"sweep": sweep_id, "chosen": list(places)}
        members = connection.execute(_members(connection.dialect.name), asked).all()
        if away := places.keys() - {row.identity for row in members}:
            taken = [*taken, *take(t.sweep_trial.c.ordinal, [places[identity] for identity in away])]
        rows = [*members, *taken]
    count = rows[0].stations if rows else connection.scalar(_COUNT, {"sweep": sweep_id})
    granted = {row.ordinal for row in taken}
    return Claim(frozenset(identity for identity, place in places.items() if place in granted), count or 0)


def find_free(connection: Connection, sweep_id: int, station_id: int, identities: Iterable[str]) -> set[str]:
    """Return those of some trials that the station could claim now."""
    asked = {"sweep": sweep_id, "station": station_id, "chosen": list(identities)}
    return set(connection.scalars(_look(connection.dialect.name), asked))


def list_left(connection: Connection, sweep_id: int, station_id: int) -> tuple[set[int], set[int]] | None:
    """Return the places of a sweep's trials without a run: those that are free, and those that other stations hold.

    The claims of stations that have ended are free. The station itself takes part again, if its process was suspended
    for longer than a lease. While others hold all that are left, which may be many, the answer is None.
    """
    suspended = sa.update(t.station).where(t.station.c.id == station_id, t.station.c.left_at.is_not(None))
    connection.execute(suspended.values(seen_at=clock(connection), left_at=None))
    others = set(list_present(connection, sweep_id)) - {station_id}
    member = t.sweep_trial.c
    is_left = member.sweep_id == sweep_id, member.run_id.is_(None)
    holders = set(connection.scalars(sa.select(member.station_id).where(*is_left).distinct()))
    if holders <= others:
        return None if holders else (set(), set())
    left: dict[int, int] = dict(connection.execute(sa.select(member.ordinal, member.station_id).where(*is_left)).all())
    held = {place for place, holder in left.items() if holder in others}
    return left.keys() - held, held


_SWEEP, _ME = (sa.bindparam(name, type_=BigId) for name in ("sweep", "station"))
_COUNT = sa.select(sa.func.count()).where(t.station.c.sweep_id == _SWEEP, t.station.c.left_at.is_(None))


@cache
def _take(dialect: str, column: sa.Column[Any]) -> sa.UpdateBase:
    """Return the statement that claims the free ones of chosen trials; it returns their places and counts stations.

    It passes over rows that another transaction is writing: those are being claimed or recorded. Written as IS NULL,
    the condition on runs would have PostgreSQL look through all that are open, before it has statistics of the table.
    """
    free = _free(dialect, column).with_for_update(skip_locked=True).correlate(None)
    member = t.sweep_trial.c
    chosen = sa.update(t.sweep_trial).where(member.sweep_id == _SWEEP, _is_one_of(dialect, member.trial_id, free))
    return chosen.values(station_id=_ME).returning(member.ordinal, _COUNT.scalar_subquery().label("stations"))


@cache
def _members(dialect: str) -> sa.Select[Any]:
    """Return the query for the identities of those of chosen trials that are in a sweep; it counts stations, too."""
    is_chosen = is_among(dialect, t.trial.c.identity, sa.bindparam("chosen", type_=list_of(t.trial.c.identity)))
    columns = t.trial.c.identity, _COUNT.scalar_subquery().label("stations")
    members = sa.select(*columns).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    return members.where(t.sweep_trial.c.sweep_id == _SWEEP, is_chosen)


@cache
def _look(dialect: str) -> sa.Select[str]:
    """Return the query for the identities of the free ones of chosen trials."""
    return sa.select(t.trial.c.identity).where(_is_one_of(dialect, t.trial.c.id, _free(dialect, t.trial.c.identity)))


def _free(dialect: str, column: sa.Column[Any]) -> sa.Select[int]:
    """Return the query for the keys of chosen trials that a station, which takes part, may claim."""
    member, station = t.sweep_trial.c, t.station.c
    others = sa.select(station.id).where(station.sweep_id == _SWEEP, station.left_at.is_(None), station.id != _ME)
    is_chosen = is_among(dialect, column, sa.bindparam("chosen", type_=list_of(column)))
    if column.table is t.trial:
        is_chosen = _is_one_of(dialect, member.trial_id, sa.select(t.trial.c.id).where(is_chosen))
    return (
        sa.select(member.trial_id)
        .where(member.sweep_id == _SWEEP, is_chosen, sa.func.coalesce(member.run_id, 0) == 0)
        .where(sa.or_(member.station_id.is_(None), member.station_id.not_in(others)))
        .where(sa.exists().where(station.id == _ME, station.left_at.is_(None)))
    )


def _is_one_of(dialect: str, column: Any, query: Any) -> sa.ColumnElement[bool]:
    """Return whether a query returns a column's value. PostgreSQL runs it first, whatever it knows of the tables."""
    if dialect == "postgresql":
        return column == sa.any_(sa.func.array(query.scalar_subquery()))  # type: ignore[no-any-return]
    return column.in_(query)  # type: ignore[no-any-return]


def clock(connection: Connection) -> float:
    """Return the time that all processes with this database share, in seconds since the epoch."""
    if connection.dialect.name == "postgresql":
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return time.time()
