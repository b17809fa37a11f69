"""The worker process, spoken to as the engine speaks to it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.errors import LaunchError, MissingDependencyError
from cuprof.core.records import DeviceFacts, Measure, State, Unavailable
from cuprof.core.scratch import LOG_BYTES
from cuprof.engine import launch, worker_process
from cuprof.engine.worker_process import WorkerDiedError, WorkerProcess
from cuprof.families import Point
from cuprof.families.origin import Folder, load_family
from cuprof.worker import devices
from cuprof.worker.devices import DeviceTable
from cuprof.worker.messages import Describe, Finished, Job, JobDone, JobTrial, WorkerSettings
from cuprof.worker.status_page import NO_TRIAL, Phase
from tests.living import LONG_S, await_end, running_with

FAULTY = Path(__file__).parents[1] / "data" / "families" / "faulty"
QUICK = MeasureConfig(
    modes=("cold",), target=0.5, min_samples=3, max_samples=6, warmup=1, settle_seconds=0.0, flush="none"
)


@contextmanager
def begin() -> Iterator[WorkerProcess]:
    started = WorkerProcess(WorkerSettings({"cpu": 1}))
    try:
        yield started
    finally:
        started.discard()


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    with begin() as started:
        yield started


def make_job(*variants: str, folder: Path = FAULTY, n: int = 16) -> Job:
    trials = tuple(JobTrial(name, name, Point(), "") for name in variants)
    return Job(Folder(folder), "cpu", Point(n=n), trials, 1, QUICK, {Measure.COLD: "m"})


def do(worker: WorkerProcess, job: Job) -> tuple[dict[str, State], JobDone]:
    """Send a job and return the states of its trials, and how it ended."""
    worker.send(job)
    states: dict[str, State] = {}
    for message in worker.messages():
        if isinstance(message, JobDone):
            return states, message
        if isinstance(message, Finished):
            states[message.outcome.identity] = message.outcome.state
    raise AssertionError("unreachable")


def test_one_worker_does_one_job_after_another(worker: WorkerProcess) -> None:
    facts = worker.ask(Describe("cpu"), DeviceFacts)
    assert facts.details["threads"] == 1
    for n in (16, 17, 16):
        states, done = do(worker, make_job("sound_first", "raises", "wrong", "sound_last", n=n))
        assert states == {
            "sound_first": State.OK, "raises": State.LAUNCH_ERROR, "wrong": State.WRONG_RESULT, "sound_last": State.OK,
        }  # fmt: skip
        assert done == JobDone()


def test_a_worker_says_whether_a_trial_was_the_first_in_it(worker: WorkerProcess) -> None:
    def company(*variants: str) -> list[bool]:
        worker.send(make_job(*variants))
        said = []
        for message in worker.messages():
            if isinstance(message, Finished):
                said.append(message.has_company)
            if isinstance(message, JobDone):
                return said
        raise AssertionError("unreachable")

    assert company("raises", "wrong") == [False, True]
    assert company("raises") == [True]


@pytest.mark.slow
def test_a_job_is_refused_where_the_familys_files_changed_after_its_planning(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(FAULTY, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "family.py").read_text().replace('name="faulty"', 'name="changing"')
    (folder / "family.py").write_text(f"{text}\nfrom .steps import STEPS\n")
    (folder / "steps.py").write_text("STEPS = 1\n")
    (folder / "unused.py").write_text("")
    job = replace(make_job("sound_first", folder=folder), code=load_family(folder).code)
    assert do(worker, job)[0] == {"sound_first": State.OK}
    (folder / "unused.py").write_text("STEPS = 2")
    assert do(worker, replace(job, problem=Point(n=17)))[0] == {"sound_first": State.OK}
    (folder / "steps.py").write_text("STEPS = 2\n")
    states, done = do(worker, replace(job, problem=Point(n=18)))
    assert (states, done.of_family) == ({}, True)
    assert done.fault == "the family's steps.py changed after the sweep had been planned; run it again"
    assert do(worker, replace(job, code={}))[0] == {"sound_first": State.OK}


def test_the_page_names_no_trial_once_a_job_is_done(worker: WorkerProcess) -> None:
    for _ in range(20):
        do(worker, make_job("wrong"))
        status = worker.page.read()
        assert (status.index, status.phase) == (NO_TRIAL, Phase.IDLE)


def test_what_cannot_even_be_tried_is_a_fault_of_the_family(worker: WorkerProcess, tmp_path: Path) -> None:
    folder = tmp_path / "faulty"
    folder.mkdir()
    text = (FAULTY / "family.py").read_text()
    (folder / "family.py").write_text(
        text.replace('return {"x": rng', "raise OSError('no inputs')\n    return {\"x\": rng")
    )
    for source in FAULTY.glob("*.cu"):
        (folder / source.name).write_text(source.read_text())
    states, done = do(worker, make_job("sound_first", folder=folder))
    line = 1 + (folder / "family.py").read_text()[: text.index('return {"x": rng')].count("\n")
    where = f"(family.py, line {line}, in generate)"
    assert (states, done.of_family) == ({}, True)
    assert done.fault == f"the family's generate() at n=16 raised OSError: no inputs {where}"
    assert "in generate" in done.log
    assert do(worker, make_job("sound_first"))[0] == {"sound_first": State.OK}


@pytest.mark.parametrize(
    ("variant", "cause", "phase"),
    [
        ("segfault", "SIGSEGV", Phase.CHECK),
        ("exits", "exit code 3", Phase.CHECK),
        ("exits_at_once", "exit code 0", Phase.BUILD),
        ("leaves_a_child", "exit code 9", Phase.CHECK),
    ],
)
def test_a_death_says_how_and_where(worker: WorkerProcess, variant: str, cause: str, phase: Phase) -> None:
    with pytest.raises(WorkerDiedError) as died:
        do(worker, make_job("prints", variant))
    assert (died.value.cause, died.value.status.index, died.value.status.phase) == (cause, 1, phase)
    assert len(died.value.log.encode()) <= 3 * LOG_BYTES


def test_nothing_can_be_sent_to_a_dead_worker(worker: WorkerProcess) -> None:
    worker.ask(Describe("cpu"), DeviceFacts)
    worker.kill()
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        worker.send(make_job("sound_first"))


def test_closing_leaves_no_process_and_no_file() -> None:
    worker = WorkerProcess(WorkerSettings())
    process, folder = psutil.Process(worker.process.pid), Path(worker.folder.path)
    worker.ask(Describe("cpu"), DeviceFacts)
    worker.discard()
    assert not process.is_running()
    assert not folder.exists()


@pytest.mark.own_workers  # whose commands name their folder
def test_a_child_left_behind_is_ended_with_the_worker(worker: WorkerProcess) -> None:
    with pytest.raises(WorkerDiedError):
        do(worker, make_job("leaves_a_child"))
    assert not await_end(worker.folder.path)


@pytest.mark.own_workers
def test_children_that_left_the_session_are_ended_with_the_worker() -> None:
    folder = FAULTY.parent / "restless"
    with begin() as worker:
        assert do(worker, make_job("leaves_daemons", folder=folder))[0] == {"leaves_daemons": State.OK}
        files = worker.folder.path
        await_daemons(files)
    assert not await_end(files)


def await_daemons(files: Path) -> None:
    """Wait until all four run and no other: a grandchild may not have begun yet, and its parent not have gone."""
    give_up = time.monotonic() + LONG_S
    while len(found := running_with(files)) != 4 or not has_orphan(found):
        assert time.monotonic() < give_up, found
        time.sleep(0.02)


def has_orphan(processes: list[psutil.Process]) -> bool:
    """Return whether one is in a session whose first process has gone."""
    pids = {each.pid for each in processes}
    with suppress(ProcessLookupError):
        return any(os.getsid(pid) not in pids for pid in pids)
    return False


@pytest.mark.own_workers
def test_a_guardian_that_is_killed_takes_the_others_along() -> None:
    folder = FAULTY.parent / "restless"
    with begin() as worker:
        do(worker, make_job("leaves_daemons", folder=folder))
        files = worker.folder.path
        await_daemons(files)
        os.kill(worker.process.pid, signal.SIGKILL)
    assert not await_end(files)


@pytest.mark.own_workers
def test_files_of_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("random", "types", "numpy", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a stranger')\n")
    with begin() as worker:
        assert do(worker, make_job("sound_first"))[0] == {"sound_first": State.OK}


@pytest.mark.own_workers
def test_who_is_idle_imports_what_the_next_job_may_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "needed.py").write_text(f"open({str(seen)!r}, 'w').close()\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('a broken installation')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    idle = launch._launch(modules=("absent", "broken", "needed"))
    give_up = time.monotonic() + LONG_S
    while not seen.exists() and time.monotonic() < give_up:
        time.sleep(0.05)
    assert seen.exists()
    monkeypatch.setattr(worker_process, "take", lambda sandbox: idle)
    with begin() as worker:
        assert do(worker, make_job("sound_first"))[0] == {"sound_first": State.OK}


@pytest.mark.own_workers
def test_a_worker_that_cannot_even_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('a broken installation')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    why = r"the worker process died \(exit code 1: RuntimeError: a broken installation\)"
    with pytest.raises(WorkerDiedError, match=why), begin() as worker:
        worker.ask(Describe("cpu"), DeviceFacts)


def test_a_page_that_was_written_over_or_cut_off_says_nothing(worker: WorkerProcess) -> None:
    worker.ask(Describe("cpu"), DeviceFacts)
    path = worker.folder.path / "status"
    path.write_bytes(b"\xff" * 32)
    assert (worker.page.read().index, worker.page.read().phase) == (NO_TRIAL, Phase.IDLE)
    path.write_bytes(b"")
    assert worker.page.read().phase is Phase.IDLE


def test_an_interrupt_is_the_engines_business(worker: WorkerProcess) -> None:
    worker.ask(Describe("cpu"), DeviceFacts)
    os.kill(worker.process.pid, signal.SIGINT)
    assert do(worker, make_job("sound_first"))[0] == {"sound_first": State.OK}


def table(monkeypatch: pytest.MonkeyPatch, error: Exception) -> DeviceTable:
    def refuse(backend: str, number: int | None) -> Any:
        raise error

    monkeypatch.setattr(devices, "open_backend", refuse)
    return DeviceTable(WorkerSettings())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MissingDependencyError("CuPy", "pip install it"), Unavailable("CuPy is not available", "pip install it")),
        (LaunchError("no device"), Unavailable("no device")),
        (OSError("libX.so: cannot\nopen"), Unavailable("opencl cannot be opened: OSError: libX.so: cannot open")),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_says_why(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: Unavailable
) -> None:
    assert table(monkeypatch, error).describe("opencl") == expected


def test_a_back_end_is_opened_once() -> None:
    opened = DeviceTable(WorkerSettings({"cpu": 1}))
    assert opened.get("cpu") is opened.get("cpu")
