"""A writer killed at any moment leaves a sound database that the next one goes on with."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from store_samples import FACTS, METHOD, make_outcome, make_timing, make_trial

from cuprof.reading.queries import query
from cuprof.records import Measure
from cuprof.store import Store

TRIALS = 200
KILLS = 10
MOST_SECONDS = 0.15
"""A process is killed at most so long after its start, or after it began to write."""


def write(url: str, told: Path) -> None:
    """Do what is left of the sweep; tell of each trial that was stored, without a buffer, in a file."""
    with told.open("ab", buffering=0) as tell, Store.open(url) as store:
        trials = [make_trial(n=n) for n in range(1, TRIALS + 1)]
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, trials)
        done = store.stored([trial.identity for trial in trials], {Measure.COLD: METHOD})
        tell.write(b"ready\n")
        for trial in trials:
            if trial.identity not in done:
                store.record(sweep, make_outcome(trial, make_timing(20, samples=100)))
                tell.write(f"{trial.identity}\n".encode())
        store.finish_sweep(sweep, "finished")


def start(url: str, told: Path) -> BaseProcess:
    """Start a writer as a copy of a process that has imported everything and opened nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cuprof.store.store", "store_samples", Path(__file__).stem])
    process = context.Process(target=write, args=(url, told))
    process.start()
    return process


def test_kills_at_random_moments_lose_nothing_that_was_reported(tmp_path: Path) -> None:
    path, told = tmp_path / "killed.sqlite", tmp_path / "told"
    url = f"sqlite:///{path}"
    chance = random.Random(20)
    told.touch()
    for attempt in range(KILLS):
        before = told.read_bytes().count(b"ready")
        process = start(url, told)
        while attempt > 1 and process.is_alive() and told.read_bytes().count(b"ready") == before:
            time.sleep(0.001)  # the first two may die while they make the database
        time.sleep(chance.uniform(0, MOST_SECONDS))
        process.kill()
        process.join()
    process = start(url, told)
    process.join(timeout=60)
    assert process.exitcode == 0
    reported = {line for line in told.read_text().splitlines() if line != "ready"}

    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    identities = [make_trial(n=n).identity for n in range(1, TRIALS + 1)]
    assert reported <= set(identities)
    with Store.open(url) as store:
        found = store.stored(identities, {Measure.COLD: METHOD})
        assert all(found[identity].complete for identity in identities)
        counts = query(
            store.url,
            "SELECT (SELECT COUNT(*) FROM sweep) AS sweeps, (SELECT COUNT(*) FROM trial) AS trials, "
            "(SELECT COUNT(*) FROM sweep_trial WHERE run_id IS NOT NULL) AS members, "
            "(SELECT COUNT(*) FROM run) AS runs, "
            "(SELECT COUNT(*) FROM timing) AS timings, (SELECT COUNT(*) FROM sample) AS samples",
        ).iloc[0]
        assert counts.to_dict() == {
            "sweeps": 1,
            "trials": TRIALS,
            "members": TRIALS,
            "runs": TRIALS,
            "timings": TRIALS,
            "samples": 100 * TRIALS,
        }
        assert query(store.url, "sweeps")["state"].tolist() == ["finished"]
        assert store.begin_sweep(FACTS) == 2
