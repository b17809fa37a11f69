"""`launch=joblib`, and what all launchers share: exit codes, a job that starts after the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.conftest import Result
from tests.engine.launchers.conftest import Launch, launching
from tests.living import command_of

pytest.importorskip("joblib", reason="joblib is missing: pip install 'cuprof[joblib]'")
pytestmark = pytest.mark.timeout(600)


KEEPS = '"""Keeps to itself."""\n'
WAITS = """    while problem.n > 4 and os.path.exists("{amid}"):  # so that neither job is done before one is killed
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Return a project whose sweep one of two jobs has completed, the other one having been killed amid it.

    Tests leave that sweep as it is, and may add others.
    """
    with launching(tmp_path_factory.mktemp("swept")) as launch:
        amid = launch.root / "amid"
        amid.touch()
        family = launch.root / "kernels" / "restless" / "family.py"
        family.write_text(family.read_text().replace(KEEPS, KEEPS + WAITS.format(amid=amid)))
        command = launch.start("launch=joblib", "launch.jobs=2", settle_s=0.5)
        launch.wait_until(lambda: launch.runs() > 0)
        jobs = [one for one in psutil.Process(command.pid).children() if "launch=local" in command_of(one)]
        jobs[0].kill()
        amid.unlink()
        assert command.wait(200) == 0, launch.log()
        yield launch


def test_jobs_share_one_sweep_and_do_the_work_of_one_that_is_killed(swept: Launch) -> None:
    assert swept.sweeps()[0][0] == "finished"
    assert swept.read("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run WHERE sweep_id = 1") == [(swept.trials,) * 2]
    log = (swept.root / "log").read_text()
    assert "2 jobs started by joblib; files are in " in log
    assert "complete; 1 of 2 jobs was lost (signal 9)" in log
    (folder,) = (swept.root / "db" / "jobs").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_job_that_starts_after_the_end_begins_no_sweep_unless_without_exit_done(
    swept: Launch, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swept.root)

    def count_after(*settings: str) -> tuple[int, str]:
        done = cli(*swept.words(settle_s=0.5), "report=none", *settings)
        assert done.exit_code == 0, done.err
        return len(swept.sweeps()), done.err

    count = len(swept.sweeps())
    found, said = count_after("exit=done")
    assert found == count
    assert "sweep 1 is complete already" in said
    anew = ("problem.n=1", "exit=done", "retry=all", f"launch.since={time.time() - 1}")
    assert count_after(*anew)[0] == count + 1
    found, said = count_after(*anew)
    assert found == count + 1
    assert f"sweep {count + 1} is complete already" in said
    assert count_after()[0] == count + 2  # with nothing to do, a sweep of its own all the same


def test_jobs_that_cannot_begin_end_the_command_with_their_code(
    launch: Launch, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(launch.root)
    done = cli(*launch.words(), "launch=joblib", "variants=plian")
    assert done.exit_code == 2
    assert "job 0: error: unknown variant 'plian'" in done.err
    assert "error: no job has begun the sweep; see " in done.err


def test_the_exit_code_says_that_nothing_is_left_or_how_trials_went(
    launch: Launch, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(launch.root)
    family = launch.root / "kernels" / "restless" / "family.py"
    family.write_text(family.read_text() + WRONG)
    words = (*launch.words(), "report=none", "variants=wrong", "problem.n=1")  # each wrong result ends a worker
    assert cli(*words, "exit=done").exit_code == 0
    assert cli(*words).exit_code == 1
    assert cli(*words, "launch=joblib", "retry=failed").exit_code == 1, launch.log()


WRONG = '''

@family.cpu("wrong")
def wrong(problem, tune, inputs, outputs):
    """Write what nobody expects."""
    return lambda: [array.fill(77) for array in outputs.values()]
'''


def test_doctor_looks_at_a_node(launch: Launch, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(launch.root)
    done = cli("doctor", "--json", "launch=joblib", "launch.gpus=64")
    assert done.exit_code == 1, done.err
    found = {each["what"]: (each["health"], each["detail"]) for each in json.loads(done.out)}
    assert found["node's folder"] == ("good", str(launch.root))
    assert found["node's GPUs"][0] == "missing"
    assert found["node's clock"] == ("good", "as here")
    assert not (launch.root / "db" / "cuprof.sqlite").exists()
