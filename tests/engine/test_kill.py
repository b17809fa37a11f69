"""An engine killed at random moments: the same command goes on, and the store ends as if nothing had happened."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

SIZES = tuple(range(1, 25))
ENGINE = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from conftest import QUICK, SHORT, Listener
from cuprof.config.model import SweepConfig
from cuprof.engine.sweep import Sweep, run_sweep
from cuprof.project import Project

class Teller(Listener):
    def started(self, planned, reused):
        print("started", flush=True)
    def trial_finished(self, trial, outcome):
        print(trial.identity, flush=True)

Sweep._calibrate = lambda *_: None
measure = replace(QUICK, settle_seconds=0.02)
sizes = {"n": tuple(map(int, sys.argv[3].split(",")))}
config = SweepConfig("", "faulty", variants=("sound_first", "lacks_a_module"), problem=sizes, measure=measure,
                     limits=SHORT, command_line="x")
run_sweep(config, Project(Path(sys.argv[1])), Teller())
"""
ROWS = "SELECT label, state FROM trial ORDER BY label"


def start(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ENGINE, str(root), str(Path(__file__).parent), ",".join(map(str, SIZES))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(root: Path) -> list[str]:
    """Run the sweep to its end and return the trials that it did."""
    with start(root) as process:
        assert process.stdout is not None
        said = process.stdout.read().split()
    assert process.returncode == 0
    return said[1:]


def test_ten_kills_at_random_moments_change_nothing(bench: Any, tmp_path: Path) -> None:
    root, chance = bench.project.root, random.Random(7)
    reported: list[str] = []
    workers: list[psutil.Process] = []
    for attempt in range(10):
        with start(root) as process:
            assert process.stdout is not None
            if attempt:  # the first one may die before it has made anything
                assert process.stdout.readline() == "started\n"
                time.sleep(chance.uniform(0, 0.12))
            else:
                time.sleep(chance.uniform(0.2, 0.8))
            workers += psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            reported += [line for line in process.stdout.read().split() if len(line) == 32]
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive, "a worker outlived its engine"
    assert len(workers) >= 9
    unfinished = bench.query("SELECT state FROM sweep")
    assert unfinished == [("running",)]
    done = {identity for (identity,) in bench.query("SELECT t.identity FROM trial t JOIN run r ON r.trial_id = t.id")}
    assert set(reported) <= done, "a trial was reported before it was durable"
    assert 0 < len(done) < 2 * len(SIZES), "the kills came too early or too late to show anything"

    finish(root)

    assert bench.query("SELECT state FROM sweep") == [("finished",)]
    trials = 2 * len(SIZES)
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(trials, trials)]
    assert bench.query("SELECT COUNT(*) FROM sweep_trial WHERE run_id IS NOT NULL") == [(trials,)]
    assert bench.query("SELECT COUNT(*) FROM timing") == [(len(SIZES),)]
    interrupted = bench.query(ROWS)
    assert finish(root)[: len(SIZES)], "what is skipped is told again"
    (root / "db").rename(root / "db of the killed")
    finish(root)
    assert bench.query(ROWS) == interrupted
