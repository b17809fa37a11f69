"""`launch=joblib`, and what all launchers share: exit codes, a job that starts after the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.engine.launchers.conftest import Launch

pytest.importorskip("joblib", reason="joblib is missing: pip install 'cuprof[joblib]'")


def test_jobs_share_one_sweep(launch: Launch) -> None:
    assert launch.start("launch=joblib", "launch.jobs=2").wait(80) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)]
    shown = (launch.root / "log").read_text()
    assert "2 jobs started by joblib; files are in " in shown
    (folder,) = (launch.root / "db" / "jobs").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


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


@pytest.mark.parametrize("settings", [["exit=done"], ["exit=done", "retry=all", "launch.since={now}"]])
def test_a_job_that_starts_after_the_end_begins_no_sweep(launch: Launch, settings: list[str]) -> None:
    now = str(time.time() - 1)
    assert launch.start(*(one.format(now=now) for one in settings)).wait(60) == 0, launch.log()
    assert launch.start(*(one.format(now=now) for one in settings)).wait(60) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)]
    assert "sweep 1 is complete already" in launch.log()


def test_without_exit_done_a_sweep_with_nothing_to_do_is_one_of_its_own(launch: Launch) -> None:
    for _ in range(2):
        assert launch.start().wait(60) == 0, launch.log()
    assert len(launch.sweeps()) == 2


def test_the_exit_code_says_that_nothing_is_left_or_how_trials_went(launch: Launch) -> None:
    family = launch.root / "kernels" / "restless" / "family.py"
    family.write_text(family.read_text() + WRONG)
    assert launch.start("variants=wrong", "exit=done").wait(60) == 0, launch.log()
    assert launch.start("variants=wrong").wait(60) == 1
    assert launch.start("variants=wrong", "launch=joblib", "retry=failed").wait(60) == 1, launch.log()


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
