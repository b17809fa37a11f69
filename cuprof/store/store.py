"""The store: one database that sweeps are written to; `cuprof.reading` reads it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection, Engine

from cuprof.errors import EmptyStoreError, StoreError
from cuprof.interrupts import shielded, stop_if_deferred
from cuprof.records import (
    Calibration,
    Conditions,
    DeviceFacts,
    Measure,
    Outcome,
    Profile,
    StoredProfile,
    SweepFacts,
    Trial,
)
from cuprof.store import counters, migrate, outcomes, stations, sweeps, trials
from cuprof.store.connection import READING, database_file, explained, is_unreachable, make_engine, parse_url, show
from cuprof.store.models import REVISION
from cuprof.store.outcomes import NOWHERE, Origin
from cuprof.store.stations import Claim
from cuprof.store.trials import StoredTrial

if TYPE_CHECKING:
    from cuprof.store.merge import Merged
    from cuprof.store.source import Source

T = TypeVar("T")

AWAY_SECONDS = 120.0
"""How long a server that was there may be away: it is restarted, or its network is."""
RETRY_SECONDS = 0.2
MERGES = 3
"""How often a merge is tried that meets what another process has just written."""


class Store:
    """Write and read one database.

    Every method is one transaction: all of it is stored when the method returns, or nothing is when it raises. An
    interrupt waits for the transaction's end; raised then, it leaves all of it stored.
    On SQLite (WAL, synchronous=NORMAL) what a method has stored outlives the end of the process, however it comes
    about; a power cut may take the last transactions back, never part of one. PostgreSQL keeps them as its server is
    set.

    Threads may share a Store. Any number of processes may open the same database; SQLite lets one of them write at a
    time and the others wait, up to 30 s. A Store does not survive a fork.
    """

    def __init__(self, url: URL, engine: Engine, read_only: bool) -> None:
        self.parsed_url, self.engine, self.read_only = url, engine, read_only
        self._process = os.getpid()

    @classmethod
    def open(cls, url: str, *, create: bool = True, read_only: bool = False) -> Store:
        """Open the database, make it where `create` allows, and bring its tables and views up to date.

        Args:
            url: SQLAlchemy URL, "sqlite:///FILE" or "postgresql+psycopg://USER@HOST/DATABASE".
            create: make the file (and its folder) or the tables where there are none.
            read_only: no data can be changed; a database of an older cuprof is brought up to date nevertheless.

        Raises:
            StoreError: no such database, not writable, damaged, locked, of a newer cuprof, or not cuprof's.
            MissingDependencyError: the driver for PostgreSQL is not installed.
        """
        parsed = parse_url(url)
        create = create and not read_only
        _check_file(parsed, create)
        engine = make_engine(parsed, read_only=read_only)
        try:
            with explained(parsed):
                with engine.connect() as connection:
                    revision = migrate.check_revision(connection, parsed)
                    current = revision is not None and migrate.is_current(connection)
                if revision is None and not create:
                    raise EmptyStoreError(f"database {show(parsed)} is empty; run a sweep first")
                if not current and (not read_only or revision != REVISION):
                    migrate.upgrade(parsed)
        except BaseException:
            engine.dispose()
            raise
        return cls(parsed, engine, read_only)

    def close(self) -> None:
        """Close every connection; on SQLite the last one to close tidies the -wal file away."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Return the SQLAlchemy URL, password included."""
        path = database_file(self.parsed_url)
        return f"sqlite:///{path}" if path else self.parsed_url.render_as_string(hide_password=False)

    @property
    def place(self) -> str:
        """Return the file's path or the URL without its password, for people."""
        return show(self.parsed_url)

    def begin_sweep(self, facts: SweepFacts) -> int:
        """Return the sweep to write to: the newest unfinished one of the same plan, or a new one.

        An unfinished sweep is taken up again when the process that ran it is gone, or was this one.

        Raises:
            UsageError: that process is alive on this host.
        """
        return self._write(lambda connection: sweeps.begin(connection, facts))

    def join_sweep(self, facts: SweepFacts, names: Sequence[str]) -> tuple[int, list[int]]:
        """Begin a sweep as `begin_sweep` does, or join one that others work on, and enter stations into it.

        Args:
            names: the stations', for people.

        Returns:
            The sweep, and the stations' keys in the order of their names.
        """

        def begin_and_join(connection: Connection) -> tuple[int, list[int]]:
            sweep_id = sweeps.begin(connection, facts, shared=True)
            return sweep_id, stations.join(connection, sweep_id, names)

        return self._write(begin_and_join)

    def read_start(self, sweep_id: int) -> float:
        """Return when a sweep began, seconds since the epoch; with its plan this tells it from every other."""
        return self._write(lambda connection: sweeps.read_start(connection, sweep_id))

    def claim(self, sweep_id: int, station_id: int, identities: Sequence[str]) -> Claim:
        """Claim those of some trials that are not done and that no other station has claimed which is still there."""
        return self._write(lambda connection: stations.claim(connection, sweep_id, station_id, identities))

    def beat(self, doing: Mapping[int, str]) -> None:
        """Say that stations are still there, and what each of them does."""
        self._write(lambda connection: stations.beat(connection, doing))

    def leave(self, station_ids: Sequence[int]) -> None:
        """Let stations go; what they have claimed and not done is free."""
        self._write(lambda connection: stations.leave(connection, station_ids))

    def finish_sweep(self, sweep_id: int, state: str) -> None:
        """Note that the sweep ended: "finished" (never taken up again) or "interrupted"."""
        self._write(lambda connection: sweeps.finish(connection, sweep_id, state))

    def save_calibration(self, sweep_id: int, facts: DeviceFacts, calibration: Calibration) -> None:
        """Keep what was measured of a device in this sweep, in place of what was kept before."""
        self._write(
            lambda connection: sweeps.save_calibration(
                connection, sweep_id, sweeps.save_device(connection, facts), calibration
            )
        )

    def reuse_calibration(self, sweep_id: int, facts: DeviceFacts) -> Calibration | None:
        """Give the sweep what was last measured of this device on the sweep's host; return it, or None."""
        return self._write(
            lambda connection: sweeps.reuse_calibration(connection, sweep_id, sweeps.save_device(connection, facts))
        )

    def enlist(self, sweep_id: int, planned: Sequence[Trial], first: int = 0) -> None:
        """Write the sweep's trials in the order given; those that are there already stay as they are.

        Args:
            first: the place of the first one in the sweep.
        """
        self._write(lambda connection: trials.enlist(connection, sweep_id, planned, first))

    def exchange(self, sweep_id: int, identity: str, trial: Trial) -> None:
        """Put another trial in the place of one that the sweep had planned and not run."""
        self._write(lambda connection: trials.exchange(connection, sweep_id, identity, trial))

    def record(self, sweep_id: int, outcome: Outcome, origin: Origin = NOWHERE) -> int | None:
        """Write what became of a trial, with all samples, and return the run's key.

        Nothing is written, and None returned, where another station has taken the trial over.

        The run becomes the one that this sweep goes by, and its state the trial's (a skipped run does not hide the
        state of an earlier one that was more than that).

        Raises:
            StoreError: the trial was not enlisted for this sweep.
        """
        return self._write(lambda connection: outcomes.record(connection, sweep_id, outcome, origin))

    def list_medians(self, sweep_id: int) -> dict[str, dict[str, float | None]]:
        """Return the medians in ns of the runs that a sweep goes by: trial's identity → measure → median."""
        return self._write(lambda connection: outcomes.list_medians(connection, sweep_id))

    def reuse(self, sweep_id: int, reused: Sequence[StoredTrial]) -> None:
        """Let the sweep go by runs that are stored already: those that `stored` returned, all in one transaction.

        Raises:
            StoreError: a trial was not enlisted for this sweep.
        """
        self._write(
            lambda connection: trials.reuse(connection, sweep_id, [(entry.identity, entry.run_id) for entry in reused])
        )

    def stored(self, identities: Sequence[str], methods: Mapping[Measure, str]) -> dict[str, StoredTrial]:
        """Return what is stored of those trials that have been run; others are left out.

        A trial is complete when its newest run failed (it would fail again), or one ok run has a timing of every
        measure by the method wanted. A skipped trial is never complete.
        """
        return self._write(lambda connection: trials.stored(connection, identities, methods))

    def record_profile(self, sweep_id: int | None, profile: Profile) -> int:
        """Write one profile with its launches, counters and advice, and return its key.

        Args:
            sweep_id: the sweep it was collected in; None for reports taken in from elsewhere.
            profile: with identity None it stands for foreign launches under the name given.

        Raises:
            StoreError: the trial is not in the database.
        """
        return self._write(lambda connection: counters.record_profile(connection, sweep_id, profile))

    def profiled(
        self, identities: Sequence[str], conditions: Conditions, metrics: Collection[str]
    ) -> dict[str, StoredProfile]:
        """Return what is stored of those trials that have been profiled for all of the metrics under these conditions.

        A trial that failed under the profiler is among them where nothing better is stored.

        Args:
            metrics: names as in `Profile.metrics`.
        """
        return self._write(lambda connection: counters.profiled(connection, identities, conditions, metrics))

    def merge(self, source: Source, paths: Mapping[str, str] = MappingProxyType({})) -> Merged:
        """Take in what another database holds, all of it or nothing; what is here already is not taken again.

        Args:
            paths: SHA-256 → where an artifact's file lies, for those that lie elsewhere now.

        Raises:
            StoreError: a value there is damaged, or one thing is told differently here and there.
        """
        from cuprof.store.merge import Merge

        for chance in reversed(range(MERGES)):
            try:
                return self._write(lambda connection: Merge(connection, source, paths).run())
            except StoreError as error:  # who sweeps at the same time may have been the first to write a trial
                if not chance or not isinstance(error.__cause__, exc.IntegrityError):
                    raise
        raise AssertionError

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection for the functions of `cuprof.reading`: all of them see one state of the database.

        It keeps nobody from writing. Errors of the database become `StoreError`s of one line.
        """
        self._check_process()
        with explained(self.parsed_url), self.engine.connect() as connection:
            yield connection.execution_options(**{READING: True})

    def _write(self, transact: Callable[[Connection], T]) -> T:
        """Run a transaction; one that loses its connection to a server is run again, until that has been away too long.

        A server may have committed what it could not confirm any more, so what is written twice must come to the same.
        """
        self._check_process()
        give_up = time.monotonic() + AWAY_SECONDS
        with shielded(), explained(self.parsed_url):
            while True:
                try:
                    with self.engine.begin() as connection:
                        return transact(connection)
                except exc.DBAPIError as error:
                    is_away = database_file(self.parsed_url) is None and is_unreachable(error)
                    if not is_away or time.monotonic() > give_up:
                        raise
                stop_if_deferred()
                time.sleep(RETRY_SECONDS)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError("a Store does not survive a fork; open the database again in the new process")


def _check_file(url: URL, create: bool) -> None:
    path = database_file(url)
    if path is None:
        return
    if not create and not path.exists():
        raise StoreError(f"there is no database {path}; run a sweep first, or name another one with --store")
    if create and not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"database {path}: its folder cannot be made ({error.strerror}); name another place with --store"
            ) from None
