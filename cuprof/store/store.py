"""The store: one database that sweeps are written to; `cuprof.results` reads it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection, Engine

from cuprof.core.errors import EmptyStoreError, StoreError, UnreachableStoreError
from cuprof.core.interrupts import shielded, stop_if_requested
from cuprof.store import counters, migrate, outcomes, stations, sweeps, trials
from cuprof.store.connection import (
    checking,
    database_file,
    explained,
    is_unreachable,
    make_engine,
    parse_url,
    reading,
    show,
)
from cuprof.store.schema import REVISION
from cuprof.store.tables import METADATA

if TYPE_CHECKING:
    from cuprof.core.records import StoredTrial, Trial
    from cuprof.store.merge import Merged
    from cuprof.store.source import Source

P = ParamSpec("P")
T = TypeVar("T")

AWAY_SECONDS = 120.0
"""How long a server that has been reached may be away: it restarts, or its network does."""
RETRY_SECONDS = 0.2
NOTED_SECONDS = 2.0
"""How long a server is away before a line says so: a lost connection is made again at once."""
CROSSED = ("40P01", "40001")
"""PostgreSQL's codes of a transaction that it rolled back for another one: deadlock, serialization failure."""
PART = 10_000
"""As many trials are enlisted in one transaction."""
MERGES = 3
"""How often a merge is tried that collides with what another process has just written."""


def transaction(function: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Return a method of `Store` that calls a function of this package within one transaction."""

    @wraps(function)
    def method(self: Store, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._write(lambda connection: function(connection, *arguments, **named))

    return method


class Store(AbstractContextManager["Store"]):
    """Write and read one database; the modules beside this one say what each method writes.

    Every method is one transaction, except `enlist`: when it returns, everything is stored, and when it
    raises, nothing is. An interrupt waits for the end of the transaction, and leaves it stored.

    On SQLite (WAL, synchronous=NORMAL) what is stored survives the end of the process, however it ends; a power cut may
    take the last transactions back, never part of one. PostgreSQL keeps what its settings promise.

    Attributes:
        note: called with a line when the server is away, from the thread that waits for it, and when it is back.

    Threads may share a Store. Any number of processes may open the same database; SQLite lets one of them write at a
    time and the others wait, up to 30 s. A Store does not survive a fork.
    """

    def __init__(self, url: URL, engine: Engine) -> None:
        self.parsed_url, self.engine = url, engine
        self.note: Callable[[str], object] = lambda text: None
        self._away_since: float | None = None
        self._process = os.getpid()
        self._inode = _find_inode(url)

    @classmethod
    def open(cls, url: str, *, create: bool = True, read_only: bool = False) -> Store:
        """Open the database, make it where `create` allows, and bring its tables and views up to date.

        Args:
            url: SQLAlchemy URL, "sqlite:///FILE" or "postgresql+psycopg://USER@HOST/DATABASE".
            create: make the file (and its folder) or the tables where there are none.
            read_only: no data can be changed; a database of an older cuprof is upgraded all the same.

        Raises:
            StoreError: no such database, not writable, damaged, locked, of a newer cuprof, or not cuprof's.
            MissingDependencyError: the driver for PostgreSQL is not installed.
        """
        parsed = parse_url(url)
        create = create and not read_only
        _check_file(parsed, create)
        engine = make_engine(parsed, read_only=read_only)
        try:
            with explained(parsed), checking(parsed):
                with engine.connect() as connection:
                    revision = migrate.check_revision(connection, parsed)
                    if revision == REVISION:
                        migrate.check_tables(connection, parsed, METADATA.tables)
                    current = revision == REVISION and migrate.has_own_views(connection)
                if revision is None and not create:
                    raise EmptyStoreError(f"database {show(parsed)} is empty; run a sweep first")
                if not current and (not read_only or revision != REVISION):
                    migrate.upgrade(parsed)
        except BaseException:
            engine.dispose()
            raise
        return cls(parsed, engine)

    def close(self) -> None:
        """Close every connection; on SQLite the last one to close removes the -wal file."""
        self.engine.dispose()

    def __exit__(self, *_: object) -> None:
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

    begin_sweep = transaction(sweeps.begin)
    join_sweep = transaction(sweeps.join)
    find_finished = transaction(sweeps.find_finished)
    read_start = transaction(sweeps.read_start)
    finish_sweep = transaction(sweeps.finish)
    save_calibration = transaction(sweeps.save_calibration)
    save_device = transaction(sweeps.save_device)

    claim = transaction(stations.claim)
    find_free = transaction(stations.find_free)
    list_left = transaction(stations.list_left)
    beat = transaction(stations.beat)
    leave = transaction(stations.leave)

    exchange = transaction(trials.exchange)
    stored = transaction(trials.stored)
    record = transaction(outcomes.record)
    record_all = transaction(outcomes.record_all)

    record_profile = transaction(counters.record_profile)
    profiled = transaction(counters.profiled)

    def enlist(
        self, sweep_id: int, listed: Sequence[Trial], first: int = 0, reused: Mapping[str, StoredTrial] | None = None
    ) -> None:
        """Write the rows of trials and their membership in the sweep; see `cuprof.store.trials.enlist`.

        Many go in several transactions, so some may be stored when others fail: other processes, which enlist the same
        trials, wait for one of them no longer than for a lock.
        """
        for start in range(0, len(listed), PART):
            part = listed[start : start + PART]
            known = {trial.identity: reused[trial.identity] for trial in part if reused and trial.identity in reused}
            self._write(partial(trials.enlist, sweep_id=sweep_id, trials=part, first=first + start, reused=known))

    def merge(self, source: Source, paths: Mapping[str, str] = MappingProxyType({})) -> Merged:
        """Take in another database, all of it or nothing; rows that are here already are not taken again.

        Args:
            paths: SHA-256 → where an artifact's file lies, for those that were moved.

        Raises:
            StoreError: a value there is damaged, or one thing differs between the two databases.
        """
        from cuprof.store.merge import Merge

        for chance in reversed(range(MERGES)):
            try:
                return self._write(lambda connection: Merge(connection, source, paths).run())
            except StoreError as error:  # a sweep may have been the first to write a trial meanwhile
                if not chance or not isinstance(error.__cause__, exc.IntegrityError):
                    raise
        raise AssertionError("unreachable")

    @classmethod
    @contextmanager
    def reading(cls, url: str) -> Iterator[Connection]:
        """Yield a `snapshot` of a database that is there already and is only read."""
        with cls.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection for the functions of `cuprof.results`: all of them see one state of the database.

        Others may write meanwhile. Errors of the database, and values that cuprof never writes, become `StoreError`s
        of one line.
        """
        self._check_process()
        with reading(self.engine) as connection:
            yield connection

    def require_same_file(self) -> None:
        """Check that the database's file is still the one that was opened.

        Raises:
            StoreError: it has been removed or replaced meanwhile, which no write notices.
        """
        if _find_inode(self.parsed_url) != self._inode:
            raise StoreError(
                f"database {self.place} was removed or replaced while the sweep ran, and the results are lost; "
                "run the command again"
            )

    def _write(self, transact: Callable[[Connection], T]) -> T:
        """Run a transaction, again where a server lost the connection, for as long as it may be away.

        A server may have committed what it could not confirm any more, so writing twice must give the same rows.
        """
        self._check_process()
        give_up = time.monotonic() + AWAY_SECONDS
        with shielded(), explained(self.parsed_url):
            while True:
                try:
                    with self.engine.begin() as connection:
                        result = transact(connection)
                    self._note_back()
                    return result
                except exc.DBAPIError as error:
                    is_away = is_unreachable(error)
                    is_crossed = getattr(error.orig, "sqlstate", None) in CROSSED
                    if not (is_away or is_crossed) or time.monotonic() > give_up:
                        raise
                    if is_away:
                        self._note_away(AWAY_SECONDS - (give_up - time.monotonic()))
                stop_if_requested()
                time.sleep(RETRY_SECONDS)

    def _note_away(self, for_s: float) -> None:
        if self._away_since is None and for_s > NOTED_SECONDS:
            self._away_since = time.time() - for_s
            since = time.strftime("%H:%M:%S", time.localtime(self._away_since))
            self.note(f"database {self.place} does not answer since {since}; waiting up to {AWAY_SECONDS:.0f} s for it")

    def _note_back(self) -> None:
        if self._away_since is not None:
            away_s, self._away_since = time.time() - self._away_since, None
            self.note(f"database {self.place} answers again after {away_s:.0f} s")

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError("a Store does not survive a fork; open the database again in the new process")


def wait_for(read: Callable[[], T]) -> T:
    """Return what a function reads of a database whose server may be away for a while."""
    give_up = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return read()
        except UnreachableStoreError:
            if time.monotonic() > give_up:
                raise
        time.sleep(RETRY_SECONDS)


def _find_inode(url: URL) -> int | None:
    path = database_file(url)
    return path.stat().st_ino if path is not None and path.exists() else None


def _check_file(url: URL, create: bool) -> None:
    path = database_file(url)
    if path is None or path.exists():
        return
    if not create:
        other = "name another one: --store URL, in Python url="
        raise EmptyStoreError(f"there is no database {path}; run a sweep first, or {other}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"database {path}: its folder cannot be made ({error.strerror}); name another place") from None
