"""`launch=joblib`, and what all launchers share: exit codes, a job that starts after the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.engine.launchers.conftest import Launch, launching

pytest.importorskip("joblib", reason="joblib is missing: pip install 'cuprof[joblib]'")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Return a project whose sweep jobs have completed; tests leave that sweep as it is, and may add others."""
    with launching(tmp_path_factory.mktemp("swept")) as launch:
        assert launch.start("launch=joblib", "launch.jobs=2").wait(80) == 0, launch.log()
        yield launch


def test_jobs_share_one_sweep(swept: Launch) -> None:
    assert swept.sweeps()[0][0] == "finished"
    assert swept.read("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run WHERE sweep_id = 1") == [(swept.trials,) * 2]
    assert "2 jobs started by joblib; files are in " in (swept.root / "log").read_text()
    (folder,) = (swept.root / "db" / "jobs").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_job_that_starts_after_the_end_begins_no_sweep_unless_without_exit_done(swept: Launch) -> None:
    def count_after(*settings: str) -> int:
        assert swept.start(*settings).wait(60) == 0, swept.log()
        return len(swept.sweeps())

    count = len(swept.sweeps())
    assert count_after("exit=done") == count
    assert "sweep 1 is complete already" in swept.log()
    anew = ("exit=done", "retry=all", f"launch.since={time.time() - 1}")
    assert count_after(*anew) == count + 1
    assert count_after(*anew) == count + 1
    assert f"sweep {count + 1} is complete already" in swept.log()
    assert count_after() == count + 2  # with nothing to do, a sweep of its own all the same


def test_a_killed_job_s_work_is_done_by_the_others(launch: Launch) -> None:
    command = launch.start("launch=joblib", "launch.jobs=2", settle_s=0.5)
    launch.wait_until(lambda: launch.runs() > 0)
    jobs = [one for one in psutil.Process(command.pid).children() if "launch=local" in one.cmdline()]
    jobs[0].kill()
    assert command.wait(80) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)]
    assert "complete; 1 of 2 jobs was lost (signal 9)" in launch.log()


def test_jobs_that_cannot_begin_end_the_command_with_their_code(launch: Launch) -> None:
    assert launch.start("launch=joblib", "launch.jobs=2", "variants=plian").wait(60) == 2
    log = (launch.root / "log").read_text()
    assert "job 0: error: unknown variant 'plian'" in log
    assert "error: no job has begun the sweep; see " in log


def test_the_exit_code_says_that_nothing_is_left_or_how_trials_went(launch: Launch) -> None:
    family = launch.root / "kernels" / "restless" / "family.py"
    family.write_text(family.read_text() + WRONG)
    words = ("variants=wrong", "problem.n=1")  # each wrong result ends a worker
    assert launch.start(*words, "exit=done").wait(60) == 0, launch.log()
    assert launch.start(*words).wait(60) == 1
    assert launch.start(*words, "launch=joblib", "retry=failed").wait(60) == 1, launch.log()


WRONG = '''

@family.cpu("wrong")
def wrong(problem, tune, inputs, outputs):
    """Write what nobody expects."""
    return lambda: [array.fill(77) for array in outputs.values()]
'''


def test_doctor_looks_at_a_node(launch: Launch) -> None:
    command = [sys.executable, "-m", "cuprof", "doctor", "--json", "launch=joblib", "launch.gpus=64"]
    done = subprocess.run(command, cwd=launch.root, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 1, done.stderr
    found = {each["what"]: (each["health"], each["detail"]) for each in json.loads(done.stdout)}
    assert found["node's folder"] == ("good", str(launch.root))
    assert found["node's GPUs"][0] == "missing"
    assert found["node's clock"] == ("good", "as here")
    assert not (launch.root / "db" / "cuprof.sqlite").exists()
