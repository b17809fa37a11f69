"""How far sweeps are, who works on them, and what failed, as a process that takes no part in them sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import UnknownNameError
from cuprof.core.records import FAILED, OF_FAMILY, State
from cuprof.results.sweeps import MEMBERS, count_looked_again, is_outdated, is_search
from cuprof.store import tables as t
from cuprof.store.processes import Process, this_host
from cuprof.store.stations import BEAT_S, LEASE_S, clock

MOST_FAILURES = 20
_LOG = """\
SELECT t.label, r.state, r.message, r.log
FROM run AS r JOIN trial AS t ON t.id = r.trial_id JOIN variant AS v ON v.id = t.variant_id
WHERE v.name = :variant AND r.log <> '' ORDER BY r.id DESC LIMIT 1"""
"""Finds the newest failure of a variant that has left a log: a compiler's output, or a traceback."""


@dataclass(frozen=True)
class StationRow:
    """One station of a sweep.

    Args:
        doing: the step and the trial; empty between jobs.
        silent_s: how long ago its process said that it is there.
        state: "working", "silent" (others may take its trials), "gone" (its process has ended on this host) or "left".
    """

    name: str
    host: str
    process_id: int
    doing: str
    done: int
    silent_s: float
    state: str


@dataclass(frozen=True)
class Progress:
    """One sweep under way, or the last one that was.

    Args:
        state: "running", "interrupted", "finished", or "abandoned" where nobody has worked on it for a while.
        is_search: the sweep chooses what it tries, so that nobody knows how many will be planned.
        reused, skipped: of those done, how many an earlier sweep had measured, and how many cannot run.
        looked_again: of those done, how many a search has looked at more than once.
        seconds_left: at the pace of the stations that work now, and no sooner than a silent one's lease ends; None
            where that is not known.
        failures: label and message, the newest first, at most `MOST_FAILURES`; those expected to be wrong are left out.
        is_outdated: its trials have identities of an earlier version, so no sweep reuses them.
    """

    sweep_id: int
    name: str
    state: str
    is_search: bool
    planned: int
    done: int
    reused: int
    skipped: int
    looked_again: int
    failed: int
    running_s: float
    seconds_left: float | None
    stations: tuple[StationRow, ...]
    failures: tuple[tuple[str, str], ...]
    is_outdated: bool = False


def list_progress(connection: Connection, sweep_id: int | None = None) -> list[Progress]:
    """Return one sweep, or those that are not finished, the newest first; where there is none, the newest of all."""
    numbers = sa.select(t.sweep.c.id).order_by(t.sweep.c.started_at.desc(), t.sweep.c.id.desc())
    if sweep_id is not None:
        found = connection.scalars(numbers.where(t.sweep.c.id == sweep_id)).all()
    else:
        found = connection.scalars(numbers.where(t.sweep.c.state != "finished")).all()
        found = found or connection.scalars(numbers.limit(1)).all()
    return [_progress(connection, number) for number in found]


def list_launched(connection: Connection, launch: str) -> list[int]:
    """Return the sweeps that jobs of a launch take part in; a search has no stations, but its job in its settings."""
    stations = sa.select(t.station.c.sweep_id).where(t.station.c.name.startswith(f"{launch}/", autoescape=True))
    settings = sa.cast(t.sweep.c.configuration, sa.Text).contains(f'"{launch}/', autoescape=True)
    chosen = t.sweep.c.id.in_(stations) | settings
    return list(connection.scalars(sa.select(t.sweep.c.id).where(chosen).order_by(t.sweep.c.id)))


def find_log(connection: Connection, variant: str) -> Sequence[str] | None:
    """Return label, state, message and log of the newest failure of a variant that has left a log.

    Raises:
        UnknownNameError: no variant has that name.
    """
    found = connection.execute(sa.text(_LOG), {"variant": variant}).first()
    if found is None and variant not in (known := set(connection.scalars(sa.select(t.variant.c.name)))):
        raise UnknownNameError("variant", variant, known)
    return found


def find_exit_code(connection: Connection, sweep_id: int) -> int:
    """Return 1 where a trial, the family or an expectation failed in a sweep, else 0, as the sweep's own end does."""
    surprise = (t.variant.c.expected == "wrong") & (t.run.c.state == State.OK.value)
    counts = (sa.func.count(t.run.c.id), _count(_HAS_FAILED), _count(surprise | (t.run.c.phase == OF_FAMILY)))
    query = MEMBERS.with_only_columns(*counts).where(t.sweep_trial.c.sweep_id == sweep_id)
    members, failures, others = connection.execute(query).one()
    settings = connection.scalar(sa.select(t.sweep.c.configuration).where(t.sweep.c.id == sweep_id))
    if is_search(settings or {}) and failures < members:  # it tries others
        return 0
    return int(failures + others > 0)


def count_done(connection: Connection, sweep_id: int) -> tuple[int, int]:
    """Return how many trials of a sweep are done, and how many it has."""
    counts = sa.select(sa.func.count(t.sweep_trial.c.run_id), sa.func.count())
    done, planned = connection.execute(counts.where(t.sweep_trial.c.sweep_id == sweep_id)).one()
    return done, planned


def list_at_work(connection: Connection, sweep_id: int) -> dict[int, str]:
    """Return the key of each station that works on a sweep → its host and what it does."""
    now, chosen = clock(connection), (t.station.c.sweep_id == sweep_id, t.station.c.left_at.is_(None))
    rows = connection.execute(sa.select(t.station).where(*chosen))
    return {row.id: f"{row.process_host}: {row.doing or 'working'}" for row in rows if now - row.seen_at < LEASE_S}


_AS_EXPECTED = sa.and_(t.variant.c.expected == "wrong", t.run.c.state == State.WRONG_RESULT.value)
_HAS_FAILED = sa.and_(t.run.c.state.in_([*FAILED]), ~_AS_EXPECTED)


def _count(kind: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.count(sa.case((kind, 1)))


def _progress(connection: Connection, sweep_id: int) -> Progress:
    now = clock(connection)
    sweep = connection.execute(sa.select(*t.sweep.c).where(t.sweep.c.id == sweep_id)).one()
    skipped = t.run.c.state == State.SKIPPED.value
    kinds = (sa.and_(t.sweep_trial.c.reused, ~skipped), skipped, _HAS_FAILED)
    members = MEMBERS.where(t.sweep_trial.c.sweep_id == sweep_id)
    planned, done, reused, unable, wrong = connection.execute(
        members.with_only_columns(sa.func.count(), sa.func.count(t.sweep_trial.c.run_id), *map(_count, kinds))
    ).one()
    ran = done - reused - unable
    present = _list_stations(connection, sweep_id, now)
    stations = tuple(station for station, *_ in present)
    working = [each for each in present if each[0].state == "working"]
    state = sweep.state
    if state == "running" and not present:  # a process that shares it with nobody, a search for one, has no stations
        stations = (StationRow("alone", sweep.process_host, sweep.process_id, "", ran, 0.0, _look(sweep)),)
    if state == "running" and all(station.state != "working" for station in stations):
        state = "abandoned"
    begun = sweep.resumed_at or sweep.started_at
    seconds_left, chooses = None, is_search(sweep.configuration or {})  # a search ends with its budget
    if working and done < planned and not chooses:
        seconds_left = _estimate_seconds(working, planned - done)
    elif state == "running" and ran and not chooses:
        seconds_left = (now - begun) / ran * (planned - done)
    failed = members.with_only_columns(t.trial.c.label, t.run.c.state, t.run.c.message).where(_HAS_FAILED)
    told = connection.execute(failed.order_by(t.run.c.id.desc()).limit(MOST_FAILURES))
    return Progress(
        sweep_id=sweep_id,
        name=sweep.name,
        state=state,
        is_search=chooses,
        planned=planned,
        done=done,
        reused=reused,
        skipped=unable,
        looked_again=count_looked_again(connection, sweep_id) if chooses else 0,
        failed=wrong,
        running_s=(sweep.finished_at or now) - begun,
        seconds_left=seconds_left,
        stations=stations,
        failures=tuple((row.label, f"{row.state}: {row.message}") for row in told),
        is_outdated=is_outdated(sweep.software),
    )


def _list_stations(connection: Connection, sweep_id: int, now: float) -> list[tuple[StationRow, float, bool]]:
    """Return the stations of a sweep, for how many seconds each has taken part, and whether it holds open trials."""
    counts = (
        sa.select(t.sweep_trial.c.station_id, sa.func.count(t.sweep_trial.c.run_id), sa.func.count())
        .where(t.sweep_trial.c.sweep_id == sweep_id)
        .group_by(t.sweep_trial.c.station_id)
    )
    claims = {key: (done, claimed) for key, done, claimed in connection.execute(counts)}
    rows = sa.select(*t.station.c).where(t.station.c.sweep_id == sweep_id).order_by(t.station.c.id)
    found = []
    for row in connection.execute(rows):
        (done, claimed), silent_s = claims.get(row.id, (0, 0)), now - row.seen_at
        state = "left" if row.left_at is not None else "silent" if silent_s > LEASE_S else _look(row)
        station = StationRow(row.name, row.process_host, row.process_id, row.doing, done, silent_s, state)
        found.append((station, now - row.joined_at, claimed > done))
    return found


def _estimate_seconds(working: Sequence[tuple[StationRow, float, bool]], left: int) -> float | None:
    """Return how long the trials that are left take at the pace of these stations; None before the first is done."""
    done = sum(station.done for station, _, _ in working)
    if not done:
        return None
    seconds = max(joined_s for _, joined_s, _ in working) / done * left
    missed = [station.silent_s for station, _, holds in working if holds and station.silent_s > 2 * BEAT_S]
    # What a silent station holds, others have when its lease ends.
    return max(seconds, LEASE_S - min(missed)) if missed else seconds


def _look(row: Any) -> str:
    """Return "gone" where a row's process has ended on this host; what another host's does shows by its silence."""
    process = Process(row.process_host, row.process_id, row.process_started)
    return "gone" if process.host == this_host() and not process.is_alive() else "working"
