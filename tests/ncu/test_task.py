"""The task and progress files of a profiled process, and the wait for the task."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cuprof.core.errors import ProfilerError
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Trial
from cuprof.families.candidate import Extension
from cuprof.families.origin import Folder
from cuprof.ncu.task import (
    RANGE_PREFIX,
    ProfilingTask,
    Progress,
    Step,
    find_identity,
    read_progress,
    read_task,
    wait_for_task,
    write_progress,
    write_task,
)

A, B = "a" * 32, "b" * 32


@pytest.mark.parametrize("extension", [None, Extension("mine.py", Path("/else where"), only="mine")])
def test_a_task_survives_the_file(tmp_path: Path, extension: Extension | None) -> None:
    problem, tunables = Point(n=2**24, dtype="float32"), Point(block=256)
    device = DeviceFacts("cuda", 1, "it", identity={"name": "it"}, details={"sm_count": 2})
    trial = Trial(A, "scale", "plain", "cuda", "kernel", problem, tunables, "scale/plain", device, "a text")
    path, folder = str(tmp_path / "p"), Folder(Path("/some where/scale"))
    task = ProfilingTask(folder, (trial,), progress_path=path, warm_up=2, extension=extension)
    write_task(task, tmp_path / "task.json")
    read = read_task(tmp_path / "task.json")
    assert read == task
    assert (read.trials[0].problem, read.trials[0].tunables) == (problem, tunables)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"trials": [{"identity": "x"}]}'])
def test_what_is_no_task_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.json").write_text(text)
    with pytest.raises(ProfilerError, match="not a task file"):
        read_task(tmp_path / "task.json")


def test_the_wait_ends_when_the_task_is_there(tmp_path: Path) -> None:
    task = tmp_path / "task.json"
    threading.Timer(0.1, task.touch).start()
    assert wait_for_task(task, psutil.Process().pid)


def test_the_wait_ends_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"]) as owner:
        threading.Timer(0.4, owner.wait).start()
        started = time.monotonic()
        assert not wait_for_task(tmp_path / "task.json", owner.pid)
        assert time.monotonic() - started < 120


def test_progress_names_the_trial_that_was_open(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    with path.open("a") as file:
        write_progress(file, A, Step.PREPARING)
        write_progress(file, A, Step.LAUNCHING)
        write_progress(file, A, Step.DONE)
        write_progress(file, B, Step.PREPARING)
        assert read_progress(path).open == B  # each line is out as soon as it is written
        write_progress(file, B, Step.FAILED, "no such kernel")
    progress = read_progress(path)
    assert progress == Progress({A: Step.DONE, B: Step.FAILED}, {B: "no such kernel"})
    assert progress.open is None


def test_a_line_cut_short_by_a_crash_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    with path.open("a") as file:
        write_progress(file, A, Step.LAUNCHING)
        file.write('{"identity": "' + A + '", "step": "do')
    assert read_progress(path).open == A
    assert read_progress(tmp_path / "absent") == Progress()


def test_identities_are_found_in_our_ranges_only() -> None:
    assert find_identity(["outer", RANGE_PREFIX + A, "inner"]) == A
    assert find_identity([RANGE_PREFIX + A, RANGE_PREFIX + B]) == B
    assert find_identity(["outer", A, f"x{RANGE_PREFIX + A}", RANGE_PREFIX + A + "0", "cuprof-" + "A" * 32]) is None
