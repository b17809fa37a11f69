"""Many processes as many hosts on one PostgreSQL, with trials that take 50 ms and cost nothing: what do claims cost?

python -m benchmarks.fleet_simulation URL [--processes 256] [--hosts 16] [--trials 20000] [--kills 0]

URL is that of an empty database on a server of this host, whose max_connections allows one a process. Each process
does what the engine's thread does with the store: it asks a `GridScheduler` for its next block, claims it, sleeps in
place of measuring, and records each outcome; a station's lease is renewed every 5 s. `--kills` ends that many processes
amid the work; their claims pass on at once, since their host sees that they are gone, or after a lease. Printed are the
median and the 95th percentile of a claim and of a record, the server's CPU, and whether each trial has one run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from multiprocessing.queues import SimpleQueue
from typing import Any

import numpy as np
import psutil
import sqlalchemy as sa

from cuprof.core.point import Point
from cuprof.core.records import Outcome, State, SweepFacts, Trial
from cuprof.engine.executor import Result
from cuprof.engine.grid import GridScheduler
from cuprof.store import Store, processes, stations
from cuprof.store import tables as t
from cuprof.store.outcomes import Origin
from cuprof.worker.messages import Job, JobTrial

TRIAL_S = 0.05
A_PROBLEM = 20
FACTS = SweepFacts("fleet", "", "fleet", "", "fleet", "python -m benchmarks.fleet_simulation", {}, "vm", {}, {})


class Slot:
    """What a scheduler asks of an executor."""

    name, is_lost = "slot", False

    def can_do(self, backend: str) -> bool:
        return True

    def is_built(self, backend: str, identity: str) -> bool:
        return True

    def find_series(self, problem: Point, backend: str) -> str:
        return problem.label


def make_trials(number: int) -> list[Trial]:
    """Return trials of a variant, `A_PROBLEM` tunables a problem."""
    points = [(Point(n=1 + place // A_PROBLEM), Point(block=place % A_PROBLEM)) for place in range(number)]
    return [
        Trial(f"{place:032x}", "fleet", "plain", "cpu", "cpu", problem, tune, f"fleet/plain {place}", source_hash="0")
        for place, (problem, tune) in enumerate(points)
    ]


def work(url: str, host: str, trials: Sequence[Trial], told: SimpleQueue[Any]) -> None:
    """Take part in the sweep as a process of a host, until everything is done; report how long each step took."""
    me = processes.Process(host, os.getpid(), psutil.Process().create_time())
    stations.this_process = lambda: me  # type: ignore[attr-defined]
    processes.this_host = lambda: host
    places = {trial.identity: place for place, trial in enumerate(trials)}
    claims, records = [], []
    with Store.open(url) as store:
        sweep_id, (number,) = store.join_sweep(FACTS, [host])

        def claim(executor: Any, identities: Sequence[str]) -> stations.Claim:
            began = time.perf_counter()
            found = store.claim(sweep_id, number, {each: places[each] for each in identities})
            claims.append(time.perf_counter() - began)
            return found

        jobs = [
            Job(None, "cpu", trials[start].problem, tuple(
                JobTrial(one.identity, one.variant, one.tunables, "") for one in trials[start : start + A_PROBLEM]
            ), 1)  # type: ignore[arg-type]
            for start in range(0, len(trials), A_PROBLEM)
        ]  # fmt: skip
        slot, scheduler, seen_at = Slot(), GridScheduler(jobs, claim=claim), time.monotonic()
        while not scheduler.done:
            batch = scheduler.ask(slot)  # type: ignore[arg-type]
            for trial in batch.job.trials if batch and batch.job else ():
                time.sleep(TRIAL_S)
                outcome = Outcome(trial.identity, State.OK, started_at=time.time())
                began = time.perf_counter()
                store.record(sweep_id, outcome, Origin(station_id=number))
                records.append(time.perf_counter() - began)
                scheduler.tell(slot, Result(batch, outcome))  # type: ignore[arg-type]
                if time.monotonic() - seen_at > stations.BEAT_S:
                    store.beat({number: "time"})
                    seen_at = time.monotonic()
            if batch is None:
                time.sleep(TRIAL_S)
        store.leave([number])
    told.put((claims, records))


def find_server(url: str) -> psutil.Process:
    """Return the server's first process, whose children its others are."""
    with Store.open(url) as store, store.snapshot() as connection:
        backend = psutil.Process(connection.scalar(sa.text("SELECT pg_backend_pid()")))
        parent = backend.parent()
    assert parent is not None, "the server is not on this host"
    return parent


def cpu_s(server: psutil.Process) -> float:
    """Return the CPU time of a server's processes so far, of those that have ended too."""
    own = server.cpu_times()
    living = [sum(child.cpu_times()[:2]) for child in server.children() if child.is_running()]
    return sum(own[:4]) + sum(living)


def main() -> None:
    """Run the fleet and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--processes", type=int, default=256)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    trials = make_trials(given.trials)
    with Store.open(given.url) as store:
        sweep_id, (first,) = store.join_sweep(FACTS, ["first"])
        store.enlist(sweep_id, trials)
    server, fork = find_server(given.url), multiprocessing.get_context("fork")
    told: SimpleQueue[Any] = fork.SimpleQueue()
    began, before = time.monotonic(), cpu_s(server)
    fleet = [
        fork.Process(target=work, args=(given.url, f"host-{place % given.hosts}", trials, told))
        for place in range(given.processes)
    ]
    for process in fleet:
        process.start()
    with Store.open(given.url) as store:
        store.leave([first])
    killed = random.Random(1).sample(fleet, given.kills)
    for process in killed:
        time.sleep(1.0)
        process.kill()
    results = [told.get() for _ in range(given.processes - given.kills)]
    took_s, used_s = time.monotonic() - began, cpu_s(server) - before
    for process in fleet:
        process.join()
    for name, durations in zip(("claim", "record"), zip(*results, strict=True), strict=True):
        taken = np.concatenate([np.array(each) for each in durations]) * 1e3
        print(f"{name}: {len(taken)}, median {np.median(taken):.1f} ms, 95 % {np.quantile(taken, 0.95):.1f} ms")
    print(f"{given.processes} processes, {given.trials} trials: {took_s:.1f} s; server {used_s / took_s:.2f} cores")
    with Store.open(given.url) as store, store.snapshot() as connection:
        runs, different = connection.execute(
            sa.select(sa.func.count(), sa.func.count(sa.distinct(t.run.c.trial_id))).select_from(t.run)
        ).one()
    print(f"runs {runs}, trials with a run {different} of {given.trials}")


if __name__ == "__main__":
    main()
