"""A writer killed at any moment leaves a sound database that the next one goes on with."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from store_samples import FACTS, METHOD, make_trial

from cuprof.reading.queries import query
from cuprof.records import Measure
from cuprof.store import Store

TRIALS = 400
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from store_samples import FACTS, METHOD, make_outcome, make_timing, make_trial
from cuprof.records import Measure
from cuprof.store import Store

with Store.open(sys.argv[1]) as store:
    trials = [make_trial(n=n) for n in range(1, int(sys.argv[3]) + 1)]
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, trials)
    done = store.stored([trial.identity for trial in trials], {Measure.COLD: METHOD})
    print("ready", flush=True)
    for trial in trials:
        if trial.identity not in done:
            store.record(sweep, make_outcome(trial, make_timing(20, samples=100)))
            print(trial.identity, flush=True)
    store.finish_sweep(sweep, "finished")
"""


def start(url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, url, str(Path(__file__).parent), str(TRIALS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_kills_at_random_moments_lose_nothing_that_was_reported(tmp_path: Path) -> None:
    path = tmp_path / "killed.sqlite"
    url = f"sqlite:///{path}"
    chance = random.Random(20)
    reported: set[str] = set()
    for attempt in range(8):
        with start(url) as process:
            assert process.stdout is not None
            if attempt:  # the first one may die while it makes the database
                process.stdout.readline()
                time.sleep(chance.uniform(0, 0.03))
            else:
                time.sleep(0.45)
            process.send_signal(signal.SIGKILL)
            reported |= {line.strip() for line in process.stdout if len(line.strip()) == 32}
    with start(url) as process:
        assert process.wait(timeout=60) == 0

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
