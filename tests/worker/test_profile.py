"""The process that runs under a profiler, here carried out on the CPU with a mark that only takes notes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cuprof.backends.cpu.backend import CpuBackend
from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.families.candidate import Extension, copy_family
from cuprof.families.origin import Folder
from cuprof.ncu.task import ProfilingTask, Step, read_progress, write_task
from cuprof.worker import profile

VECTOR = Path(__file__).parents[1] / "data" / "families" / "vector"
ONE, TWO, THREE = "1" * 32, "2" * 32, "3" * 32


class Notes:
    """Note what is marked."""

    def __init__(self) -> None:
        self.marked: list[str] = []

    @contextmanager
    def mark(self, identity: str) -> Iterator[None]:
        """Note an execution's beginning and end."""
        self.marked.append(identity)
        yield
        self.marked.append("end")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    """Return what marks the executions here."""
    found = Notes()
    monkeypatch.setattr(profile, "mark", found.mark)
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the devices that are opened, each of which is the CPU."""
    found: list[tuple[str, int]] = []

    def open_backend(name: str, index: int) -> CpuBackend:
        found.append((name, index))
        return CpuBackend(1)

    monkeypatch.setattr(profile, "open_backend", open_backend)
    return found


def write(
    folder: Path, *trials: tuple[str, str, int], family: Path = VECTOR, extension: Extension | None = None
) -> Path:
    """Write a task of (identity, variant, n) and return its file."""
    tunables = Point(chunk=16, reverse=False)
    members = tuple(
        Trial(identity, "vector", variant, "cpu", "cpu", Point(n=n, dtype="float32"), tunables, variant)
        for identity, variant, n in trials
    )
    task = ProfilingTask(Folder(family), members, str(folder / "progress"), extension=extension)
    write_task(task, folder / "task.json")
    return folder / "task.json"


def arguments(task: Path, device: int = 0) -> list[str]:
    """Return the arguments of the process for a task that this one owns."""
    return [str(os.getpid()), "cpu", str(device), str(task)]


def test_each_trial_is_executed_once_inside_the_mark(tmp_path: Path, notes: Notes, opened: list) -> None:
    task = write(tmp_path, (ONE, "cpu_whole", 64), (TWO, "cpu_chunks", 64), (THREE, "cpu_whole", 32))
    assert profile.main(arguments(task)) == 0
    assert notes.marked == [ONE, "end", TWO, "end", THREE, "end"]
    assert read_progress(tmp_path / "progress").steps == dict.fromkeys((ONE, TWO, THREE), Step.DONE)


def test_a_trial_that_fails_is_said_and_the_next_goes_on(tmp_path: Path, notes: Notes, opened: list) -> None:
    task = write(tmp_path, (ONE, "no_such_variant", 64), (TWO, "cpu_whole", 64))
    assert profile.main(arguments(task)) == 0
    progress = read_progress(tmp_path / "progress")
    assert progress.steps == {ONE: Step.FAILED, TWO: Step.DONE}
    assert "no_such_variant" in progress.messages[ONE]


def test_a_file_from_elsewhere_is_run_after_the_inputs_have_been_made(
    tmp_path: Path, notes: Notes, opened: list
) -> None:
    (tmp_path / "mine.py").write_text("""
from . import family as own
def refuse(problem, rng):
    raise ValueError("inputs are asked for by a stranger's function")
family.generate = own.generate = refuse
@family.cpu("mine")
def mine(problem, tune, inputs, outputs):
    assert inputs["x"].any()
    return lambda: None
""")
    copy, extension = copy_family(VECTOR, tmp_path, tmp_path / "mine.py", (tmp_path / "mine.py").read_bytes())
    task = write(tmp_path, (ONE, "mine", 64), (TWO, "mine", 32), family=copy, extension=extension)
    assert profile.main(arguments(task)) == 0
    progress = read_progress(tmp_path / "progress")
    assert progress.steps == dict.fromkeys((ONE, TWO), Step.DONE), progress.messages
    assert notes.marked == [ONE, "end", TWO, "end"]


def test_the_device_is_opened_while_the_task_is_awaited(
    tmp_path: Path, notes: Notes, opened: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(task: Path, owner: int) -> bool:
        assert (task, owner) == (tmp_path / "task.json", os.getpid())
        assert opened == [("cpu", 3)]
        return write(tmp_path, (ONE, "cpu_whole", 64)).exists()

    monkeypatch.setattr(profile, "wait_for_task", wait)
    assert profile.main(arguments(tmp_path / "task.json", 3)) == 0
    assert opened == [("cpu", 3)]


def test_nothing_is_done_for_a_task_whose_owner_has_ended(tmp_path: Path, opened: list) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as owner:
        owner.wait()
    assert profile.main([str(owner.pid), "cpu", "0", str(tmp_path / "task.json")]) == 1
    assert opened == [("cpu", 0)]
