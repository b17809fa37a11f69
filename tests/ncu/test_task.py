"""The task file of a profiled process, and the wait for it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cuprof.core.errors import ProfilerError
from cuprof.core.point import Point
from cuprof.families.candidate import Extension
from cuprof.families.origin import Folder
from cuprof.ncu.task import ProfilingTask, TaskOwner, TaskTrial, find_owner, read_task, wait_for_task, write_task

A = "a" * 32


@pytest.mark.parametrize("extension", [None, Extension("mine.py", Path("/else where"), only="mine")])
def test_a_task_survives_the_file(tmp_path: Path, extension: Extension | None) -> None:
    problem, tunables = Point(n=2**24, dtype="float32"), Point(block=256)
    trial = TaskTrial(A, "plain", problem, tunables)
    path, folder = str(tmp_path / "p"), Folder(Path("/some where/scale"))
    task = ProfilingTask(folder, (trial,), "ncu", "cuda", 1, progress_path=path, warm_up=2, extension=extension)
    write_task(task, tmp_path / "task.json")
    read = read_task(tmp_path / "task.json")
    assert read == task
    assert (read.trials[0].problem, read.trials[0].tunables) == (problem, tunables)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"trials": [{"identity": "x"}]}'])
def test_what_is_no_task_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.json").write_text(text)
    with pytest.raises(ProfilerError, match="no task file"):
        read_task(tmp_path / "task.json")


def note(folder: Path, pid: int) -> Path:
    (folder / "owner.json").write_text(json.dumps({"pid": pid, "backend": "cuda", "device_index": 3}))
    return folder / "task.json"


def test_the_wait_ends_when_the_task_is_there(tmp_path: Path) -> None:
    task = note(tmp_path, psutil.Process().pid)
    threading.Timer(0.1, task.touch).start()
    assert wait_for_task(task)
    assert find_owner(task) == TaskOwner(psutil.Process().pid, "cuda", 3)


def test_the_wait_ends_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"]) as owner:
        task = note(tmp_path, owner.pid)
        threading.Timer(0.4, owner.wait).start()
        started = time.monotonic()
        assert not wait_for_task(task)
        assert time.monotonic() - started < 30


def test_without_a_note_nobody_is_waited_for(tmp_path: Path) -> None:
    assert not wait_for_task(tmp_path / "task.json")
    assert find_owner(tmp_path / "task.json") is None
