"""Measure what claims cost when many hosts share one PostgreSQL; trials sleep for 50 ms in place of measuring.

python -m benchmarks.fleet_simulation [--hosts 16] [--processes 4] [--stations 4] [--trials 100000] [--tunables 20]
    [--done 0] [--kills 0] [--restarts 0] [--records plain]

A server of its own is started on this host. On each host run several processes, and in each a few stations as threads:
each has a connection, a `GridScheduler` and the store's own claims, as a process with one GPU has. All begin at once,
when the last one has joined. `--records store` writes each outcome by `Store.record`, as the engine does; `plain`
writes the outcomes of a block in one statement, which checks the claim too: two cores cannot run the engine's part of
256 hosts. A station renews its lease every 5 s, and ends with the query for what others failed at. `--done` trials of
the sweep have runs before. `--kills` ends processes with SIGKILL amid the work, with all their stations; `--restarts`
stops the server for a second. The output has the median and the 95th percentile of a claim, of the queries for what is
free and what is left, and of a record, the server's CPU, and whether each trial has one run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from threading import Thread
from typing import Any

import numpy as np
import psutil
import sqlalchemy as sa

from cuprof.core.errors import UnreachableStoreError
from cuprof.core.point import Point
from cuprof.core.records import Outcome, State, SweepFacts, Trial
from cuprof.engine.executor import Batch, Result
from cuprof.engine.grid import GridScheduler
from cuprof.results.sweeps import list_ends
from cuprof.store import processes, stations
from cuprof.store import tables as t
from cuprof.store.outcomes import Origin
from cuprof.store.store import Store, wait_for
from cuprof.worker.messages import Job, JobTrial
from tests.store.throwaway_postgres import Server, find_binaries

TRIAL_S = 0.05
SETTINGS = "-c max_connections=400 -c shared_buffers=512MB -c max_wal_size=4GB"
NAMES: list[str] = []
FACTS = SweepFacts("fleet", "", "fleet", "", "fleet", "python -m benchmarks.fleet_simulation", {}, "vm", {}, {})
MINE = """
WITH mine AS (
    SELECT trial_id FROM sweep_trial
    WHERE sweep_id = :sweep AND trial_id = ANY(ARRAY(SELECT id FROM trial WHERE identity = ANY(:identities)))
    AND station_id = :station AND COALESCE(run_id, 0) = 0
    FOR UPDATE
), made AS (
    INSERT INTO run (trial_id, sweep_id, state, phase, message, log, duration_ns, recorded_at)
    SELECT trial_id, :sweep, 'ok', '', '', '', 50000000, clock_timestamp() FROM mine RETURNING id, trial_id
)
UPDATE sweep_trial m SET run_id = made.id FROM made WHERE m.sweep_id + 0 = :sweep AND m.trial_id = made.trial_id
"""
FILL = (
    """
    INSERT INTO trial (identity, variant_id, problem_id, tunables, tunables_label, label, state)
    SELECT lpad(to_hex(n), 32, '0'), 1, 1, '{}', '', 'fleet/plain ' || n, 'ok' FROM generate_series(:first, :last) n
    """,
    """
    INSERT INTO run (trial_id, sweep_id, state, phase, message, log, duration_ns, recorded_at)
    SELECT id, :sweep, 'ok', '', '', '', 50000000, clock_timestamp() FROM trial WHERE state = 'ok'
    """,
    """
    INSERT INTO sweep_trial (sweep_id, trial_id, ordinal, run_id)
    SELECT :sweep, trial.id, CAST(CAST('x' || right(identity, 8) AS bit(32)) AS integer), run.id
    FROM run JOIN trial ON trial.id = trial_id
    """,
)


class Slot:
    """What a scheduler asks of an executor."""

    name, is_lost = "slot", False

    def can_do(self, backend: str) -> bool:
        return True

    def is_built(self, backend: str, identity: str) -> bool:
        return True


class Station:
    """A station that takes part in the sweep until everything is done; it has joined once it is made.

    Attributes:
        taken: what was asked of the store → how many seconds each time.
    """

    def __init__(self, store: Store, host: str, jobs: Sequence[Job], records: str) -> None:
        self.store, self.host, self.records = store, host, records
        self.granted = 0
        self.sweep_id, (self.number,) = store.join_sweep(FACTS, [host])
        self.scheduler = GridScheduler(jobs, claims=self)  # type: ignore[arg-type]
        self.taken: dict[str, list[float]] = {"claim": [], "find free": [], "list left": [], "record": []}

    def run(self) -> None:
        """Take part."""
        scheduler, slot = self.scheduler, Slot()  # type: Any
        self.seen_at = time.monotonic()
        while not scheduler.done:
            batch = scheduler.ask(slot)
            if batch and batch.job:
                self._measure(batch, batch.job, scheduler, slot)
            if batch is None:
                time.sleep(TRIAL_S)
                self._beat()
        wait_for(self._read_ends)
        self.store.leave([self.number])

    def _measure(self, batch: Batch, job: Job, scheduler: GridScheduler, slot: Any) -> None:
        results = [Result(batch, Outcome(trial.identity, State.OK, started_at=time.time())) for trial in job.trials]
        if self.records == "plain":
            time.sleep(TRIAL_S * len(results))
            self._timed("record", self._record_plainly, job)
        for result in results:
            if self.records == "store":
                time.sleep(TRIAL_S)
                self._timed("record", self.store.record, self.sweep_id, result.outcome, Origin(self.number))
            scheduler.tell(slot, result)
        self._beat()

    def _read_ends(self) -> None:
        with self.store.snapshot() as connection:
            list_ends(connection, self.sweep_id)

    def claim(self, executor: Any, identities: Sequence[str]) -> stations.Claim:
        """Claim trials, whose identities are their places."""
        places = {each: int(each, 16) for each in identities}
        found: stations.Claim = self._timed("claim", self.store.claim, self.sweep_id, self.number, places)
        self.granted += bool(found.granted)
        return found

    def find_free(self, executor: Any, identities: Sequence[str]) -> set[str]:
        """Return those of some trials that are free."""
        free: set[str] = self._timed("find free", self.store.find_free, self.sweep_id, self.number, identities)
        return free

    def list_left(self, executor: Any) -> tuple[set[str], set[str]] | None:
        """Return the open trials that are free, and those that others hold; None if others hold all."""
        left = self._timed("list left", self.store.list_left, self.sweep_id, self.number)
        return left and ({NAMES[place] for place in left[0]}, {NAMES[place] for place in left[1]})

    def _beat(self) -> None:
        if time.monotonic() - self.seen_at > stations.BEAT_S:
            self.store.beat({self.number: "time"})
            self.seen_at = time.monotonic()

    def _record_plainly(self, job: Job) -> None:
        identities = [trial.identity for trial in job.trials]
        asked = {"sweep": self.sweep_id, "station": self.number, "identities": identities}
        self.store._write(lambda connection: connection.execute(sa.text(MINE), asked))

    def _timed(self, what: str, function: Any, *arguments: Any) -> Any:
        began = time.perf_counter()
        found = function(*arguments)
        self.taken[what].append(time.perf_counter() - began)
        return found


def work(
    url: str, host: str, jobs: Sequence[Job], given: argparse.Namespace, start: Barrier, told: SimpleQueue[Any]
) -> None:
    """Run the stations of one process of a host once all have joined; report what they took."""
    me = processes.Process(host, os.getpid(), psutil.Process().create_time())
    stations.this_process = lambda: me  # type: ignore[attr-defined]
    processes.this_host = lambda: host
    with wait_for(lambda: Store.open(url)) as store:
        crew = [Station(store, host, jobs, given.records) for _ in range(given.stations)]
        start.wait()
        threads = [Thread(target=one.run) for one in crew]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told.put([(one.taken, one.granted) for one in crew])


def make_trials(number: int, tunables: int) -> list[Trial]:
    """Return trials of a variant, so many tunables a problem."""
    points = [(Point(n=1 + place // tunables), Point(block=place % tunables)) for place in range(number)]
    return [
        Trial(f"{place:032x}", "fleet", "plain", "cpu", "cpu", problem, tune, f"fleet/plain {place}", source_hash="0")
        for place, (problem, tune) in enumerate(points)
    ]


def make_jobs(trials: Sequence[Trial], tunables: int) -> list[Job]:
    """Return a job a problem."""
    jobs = []
    for start in range(0, len(trials), tunables):
        of_problem = trials[start : start + tunables]
        members = tuple(JobTrial(one.identity, one.variant, one.tunables, "") for one in of_problem)
        jobs.append(Job(None, "cpu", trials[start].problem, members, 1))  # type: ignore[arg-type]
    return jobs


class Watch:
    """The CPU time of a server, and of its processes that have ended; it may be restarted."""

    def __init__(self, server: Server, url: str) -> None:
        self.server, self.url = server, url
        self.earlier_s = 0.0
        self.find()

    def find(self) -> None:
        """Find the server's first process, whose children its others are."""
        with Store.open(self.url) as store, store.snapshot() as connection:
            parent = psutil.Process(connection.scalar(sa.text("SELECT pg_backend_pid()"))).parent()
        assert parent is not None
        self.first = parent
        self.begun_s = self.read()

    def read(self) -> float:
        """Return the CPU time so far in seconds."""
        living = 0.0
        for child in self.first.children():
            with suppress(psutil.NoSuchProcess):
                living += sum(child.cpu_times()[:2])
        return sum(self.first.cpu_times()[:4]) + living

    def used_s(self) -> float:
        """Return the CPU time since the beginning."""
        return self.earlier_s + self.read() - self.begun_s

    def restart(self) -> None:
        """Stop the server for a second."""
        self.earlier_s = self.used_s()
        self.server.halt()
        time.sleep(1.0)
        self.server.resume()
        self.find()


def main() -> None:
    """Run the fleet and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("hosts", 16),
        ("processes", 4),
        ("stations", 4),
        ("trials", 100_000),
        ("tunables", 20),
        ("done", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("kills", "restarts"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--records", choices=("plain", "store"), default="plain")
    given = parser.parse_args()
    binaries = find_binaries()
    assert binaries is not None, "no PostgreSQL server programs (initdb, pg_ctl) on this machine"
    server = Server(binaries, SETTINGS)
    try:
        server.start()
        run(server, server.make_database("fleet"), given)
    finally:
        server.stop()


def run(server: Server, url: str, given: argparse.Namespace) -> None:
    """Fill the sweep, run the fleet on the rest, print the figures."""
    trials = make_trials(given.trials, given.tunables)
    jobs = make_jobs(trials, given.tunables)
    with Store.open(url) as store:
        sweep_id, (first,) = store.join_sweep(FACTS, ["first"])
        store.enlist(sweep_id, trials)
        places = {"sweep": sweep_id, "first": given.trials, "last": given.trials + given.done - 1}
        with store.engine.begin() as connection:
            for statement in FILL if given.done else ():
                connection.execute(
                    sa.text(statement), {name: places[name] for name in places if f":{name}" in statement}
                )
    print(f"{given.trials + given.done} members, {given.done} of them done before", flush=True)
    NAMES.extend(trial.identity for trial in trials)
    del trials
    fork = multiprocessing.get_context("fork")
    told: SimpleQueue[Any] = fork.SimpleQueue()
    number = given.hosts * given.processes
    start = fork.Barrier(number + 1)
    fleet = [
        fork.Process(target=work, args=(url, f"host-{place % given.hosts}", jobs, given, start, told))
        for place in range(number)
    ]
    for process in fleet:
        process.start()
    start.wait()
    watch, began = Watch(server, url), time.monotonic()
    with Store.open(url) as store:
        store.leave([first])
    chance = random.Random(1)
    events = chance.sample([*fleet[: given.kills], *["restart"] * given.restarts], given.kills + given.restarts)
    killed = [process for process in events if process != "restart"]
    for event in events:
        time.sleep(3.0)
        if isinstance(event, str):
            watch.restart()
        else:
            event.kill()
        print(f"{time.monotonic() - began:.0f} s: {event if isinstance(event, str) else 'kill'}", flush=True)
    results, granted = zip(*(each for _ in range(len(fleet) - len(killed)) for each in told.get()), strict=True)
    took_s, used_s = time.monotonic() - began, watch.used_s()
    for process in fleet:
        process.join()
    for name in results[0]:
        taken = np.concatenate([np.array(each[name]) for each in results]) * 1e3
        if len(taken):
            quantiles = ", ".join(f"{share:.0%} {np.quantile(taken, share):.1f} ms" for share in (0.5, 0.95, 1.0))
            print(f"{name}: {len(taken)}; {quantiles}")
    print(f"granted {sum(granted)} claims")
    count = given.hosts * given.processes * given.stations
    print(f"{count} stations, {given.trials} trials: {took_s:.1f} s; server {used_s / took_s:.2f} cores")
    print(f"this machine's load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with Store.open(url) as store, store.snapshot() as connection:
        runs, different = connection.execute(
            sa.select(sa.func.count(), sa.func.count(sa.distinct(t.run.c.trial_id))).select_from(t.run)
        ).one()
    print(f"runs {runs}, trials with a run {different} of {given.trials + given.done}")


if __name__ == "__main__":
    try:
        main()
    except UnreachableStoreError as error:
        raise SystemExit(str(error)) from None
