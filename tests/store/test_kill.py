"""A writer killed at any moment leaves a sound database that the next one goes on with."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from store_samples import FACTS, METHOD, make_trial

from cuprof.core.records import Measure
from cuprof.results.queries import query
from cuprof.store.store import Store

TRIALS = 400
SERVER = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from store_samples import FACTS, METHOD, make_outcome, make_timing, make_trial
from cuprof.core.records import Measure
from cuprof.store.store import Store

def write(is_killed):
    with Store.open(sys.argv[1]) as store:
        trials = [make_trial(n=n) for n in range(1, int(sys.argv[3]) + 1)]
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, trials)
        done = store.stored([trial.identity for trial in trials], {Measure.COLD: METHOD})
        print("ready", flush=True)
        for trial in trials:
            if is_killed and trial is trials[-1]:
                signal.pause()  # so that there is something to kill, however late the kill comes
            if trial.identity not in done:
                store.record(sweep, make_outcome(trial, make_timing(20, samples=100)))
                print(trial.identity + "\\n", end="", flush=True)  # written at once: a kill tears no line
        store.finish_sweep(sweep, "finished")

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        write(line == "be killed\\n")
        os._exit(0)
    print(pid, flush=True)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Writers:
    """Writers that are forked, so that none of them has to import anything."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-c", SERVER, url, str(Path(__file__).parent), str(TRIALS)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.orders, self.said = self.server.stdin, self.server.stdout

    def start(self, order: str = "be killed") -> int:
        self.orders.write(f"{order}\n")
        self.orders.flush()
        return int(self.said.readline())

    def lines_until(self, word: str) -> list[str]:
        """Return what is said until a line that starts with a word, that line included."""
        lines = [self.said.readline().strip()]
        while not lines[-1].startswith(word):
            lines.append(self.said.readline().strip())
        return lines


def test_kills_at_random_moments_lose_nothing_that_was_reported(tmp_path: Path) -> None:
    path = tmp_path / "killed.sqlite"
    url = f"sqlite:///{path}"
    chance = random.Random(int(os.environ.get("CUPROF_SEED", "20")))
    reported: set[str] = set()
    writers = Writers(url)
    with writers.server:
        for attempt in range(8):
            pid = writers.start()
            if attempt:  # the first one may die while it makes the database
                writers.lines_until("ready")
                time.sleep(chance.uniform(0, 0.03))
            else:
                time.sleep(0.2)
            os.kill(pid, signal.SIGKILL)
            reported |= {line for line in writers.lines_until("ended") if len(line) == 32}
        writers.start("finish")
        assert writers.lines_until("ended")[-1] == "ended 0"
        writers.orders.close()

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
