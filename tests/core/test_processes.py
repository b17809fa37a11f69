"""Processes that cuprof starts: what they inherit, and what ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import psutil
import pytest

from cuprof.core import processes
from cuprof.core.processes import MARK, child_command, child_environment, end_marked, name_end

CODE = """
import subprocess, sys
from cuprof.core.processes import child_environment, spare_cores
spare_cores()
spare_cores()
import scipy.linalg
from threadpoolctl import threadpool_info
print([each["num_threads"] for each in threadpool_info() if each["internal_api"] == "openblas"])
told = "import os; print([os.environ.get(each) for each in ('OPENBLAS_NUM_THREADS', 'CUPROF_OPENBLAS_NUM_THREADS')])"
inner = "import subprocess, sys; from cuprof.core.processes import child_environment; " + (
    f"subprocess.run([sys.executable, '-c', {told!r}], env=child_environment())"
)
sys.stdout.flush()
subprocess.run([sys.executable, "-c", told], env=child_environment(), check=True)
subprocess.run([sys.executable, "-c", inner], check=True)
"""


@pytest.mark.parametrize("before", ["", "3"])
def test_a_command_has_one_thread_of_blas_and_its_children_what_was_asked_for(before: str) -> None:
    environment = {name: value for name, value in child_environment().items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": before} if before else {}
    told = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    threads, direct, by_another = told.stdout.splitlines()
    assert set(eval(threads)) == {1}
    assert direct == by_another == str([before or None, None])


def test_without_a_command_the_environment_is_handed_on() -> None:
    assert child_environment() == {**os.environ, "PYTHONPATH": child_environment()["PYTHONPATH"]}


STRAY = """
import subprocess, sys, os
stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(stray.pid, flush=True)
os._exit(7)
"""


def test_a_guardian_ends_what_its_program_leaves_running_and_ends_like_it(tmp_path: Path) -> None:
    words = ("cuprof.core.processes", str(os.getpid()), str(tmp_path), sys.executable, "-c", STRAY)
    done = subprocess.run(child_command(*words), capture_output=True, text=True)
    assert done.returncode == 7
    assert not psutil.pid_exists(int(done.stdout))
    assert tmp_path.exists()


@pytest.mark.parametrize(("code", "said"), [(3, "exit code 3"), (-9, "SIGKILL"), (-35, "signal 35")])
def test_an_end_is_named(code: int, said: str) -> None:
    assert name_end(code) == said


def test_what_is_marked_is_ended_however_much_another_one_shows_as_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[tuple[int, int]]()
    monkeypatch.setattr(processes, "Path", lambda _: tmp_path)
    monkeypatch.setattr(os, "kill", lambda *sent: ended.append(sent))
    for pid, content in (("1", b""), ("2", f"A=b\0{MARK}={tmp_path}\0".encode())):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(content)
    os.truncate(tmp_path / "1" / "environ", 1 << 27)
    tracemalloc.start()
    end_marked(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ended == [(2, signal.SIGKILL)]
    assert peak < 1 << 26
