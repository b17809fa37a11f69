"""What the worker does while it waits for its first job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any
from unittest.mock import Mock

import pytest

from cuprof.backends.cpu.backend import CpuBackend
from cuprof.backends.registry import get_spec
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import DeviceMemoryError
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Measure, State, Unavailable
from cuprof.families import Family, Signature
from cuprof.families.origin import Folder
from cuprof.worker import devices, server
from cuprof.worker.messages import (
    Build,
    Built,
    Describe,
    Finished,
    Job,
    JobDone,
    JobTrial,
    Open,
    Prepare,
    WorkerSettings,
)
from cuprof.worker.problem import Problem
from cuprof.worker.status_page import Phase, StatusPage
from cuprof.worker.wire import Wire

FAMILY = Path(__file__).parents[1] / "data" / "families" / "backends"
LONG_S = 60.0


def make_worker(folder: Path) -> tuple[server.Worker, Connection]:
    """Return a worker that serves nobody yet, and the engine's end of its pipe."""
    ours, theirs = Pipe()
    page = StatusPage(folder / "status", create=True)
    return server.Worker(Wire(theirs), page, WorkerSettings({"cpu": 1})), ours


@contextmanager
def serving(folder: Path, *asked: object) -> Iterator[Wire]:
    """Yield the engine's end of the pipe of a worker in a thread, which finds these messages when it begins."""
    worker, ours = make_worker(folder)
    wire, thread = Wire(ours), Thread(target=worker.serve)
    for message in asked:
        wire.send(message)
    thread.start()
    try:
        yield wire
    finally:
        ours.close()
        thread.join(LONG_S)
        worker.page.close()


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, ...]], Event]:
    """Return what is imported ahead, where opening the CPU imports a module, and an event that follows."""
    found, event = [], Event()

    def take(*modules: str) -> None:
        found.append(modules)
        event.set()

    monkeypatch.setattr(server, "get_spec", lambda name: replace(get_spec(name), imports=("slow",)))
    monkeypatch.setattr(server, "import_ahead", take)
    return found, event


def test_what_a_device_needs_is_imported_once_nothing_more_is_asked(
    tmp_path: Path, imported: tuple[list[tuple[str, ...]], Event]
) -> None:
    found, event = imported
    with serving(tmp_path, Describe("cpu"), Describe("cpu")) as wire:
        assert isinstance(wire.receive(), DeviceFacts)
        assert isinstance(wire.receive(), DeviceFacts)
        assert event.wait(LONG_S)
    assert found == [("slow",)]


def test_without_a_device_nothing_is_imported(tmp_path: Path, imported: tuple[list[tuple[str, ...]], Event]) -> None:
    found, event = imported
    with serving(tmp_path) as wire:
        wire.send(Describe("nothing like it"))
        said = wire.receive()
        assert isinstance(said, Unavailable)
        assert not event.wait(4 * server.QUESTIONS_S)
    assert found == []


def test_devices_are_opened_ahead_and_what_refuses_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_backend(name: str, number: int | None) -> object:
        opened.append((name, number))
        if name == "broken":
            raise OSError("no")
        return object()

    monkeypatch.setattr(devices, "open_backend", open_backend)
    with serving(tmp_path) as wire:
        wire.send(Open(("broken", "cpu")))
        wire.send(Describe("nothing like it"))
        assert isinstance(wire.receive(), Unavailable)
        give_up = time.monotonic() + LONG_S
        while len(opened) < 2 and time.monotonic() < give_up:  # a thread of the worker's opens them
            time.sleep(0.01)
    assert opened == [("broken", None), ("cpu", 1)]


def test_programs_are_built_while_the_inputs_are_made_and_told_as_they_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    entered: list[Phase] = []
    compiled: Future[Any] = Future()
    enter = StatusPage.enter
    monkeypatch.setattr(StatusPage, "enter", lambda page, *where: (entered.append(where[1]), enter(page, *where)))

    class Building(CpuBackend):
        def build_ahead(self, signature: Signature, builds: Any, limit_s: float | None = None) -> list[Any]:
            begun = [(variant.name, text, entered[-1], limit_s) for variant, _, text in builds]
            steps.extend(begun)
            return [[compiled] for _ in begun]

    def make(family: Family, job: Job, *, at_once: bool) -> Problem:
        steps.append(entered[-1])
        raise ValueError("enough seen")

    monkeypatch.setattr(devices, "open_backend", lambda name, number: Building())
    monkeypatch.setattr(Problem, "make", make)
    names = ("doubles_cpu", "doubles_cuda", "absent")  # a function is not built
    trials = tuple(JobTrial(f"id {name}", name, Point(), f"of {name}") for name in names)
    job = Job(Folder(FAMILY), "cpu", Point(n=16), trials, seed=3)
    with serving(tmp_path) as wire:
        wire.send(Build(job, 7.0))
        assert wire.receive() == Built(("id doubles_cpu", "id absent"))
        assert steps == [("doubles_cuda", "of doubles_cuda", Phase.BUILD, 7.0), Phase.INPUTS]
        compiled.set_exception(ValueError("it does not compile"))
        assert wire.receive() == Built(("id doubles_cuda",)), "what is refused is done, too"
        wire.send(job)
        assert "enough seen" in wire.receive().fault, "what was wrong meanwhile is the job's to tell"


def make_job(*names: str, seed: int = 3) -> Job:
    trials = tuple(JobTrial(f"id {name}", name, Point(place=0), "") for name in names)
    config = MeasureConfig(min_samples=2, max_samples=2, warmup=0, settle_seconds=0.0, flush="none")
    return Job(Folder(FAMILY), "cpu", Point(n=16), trials, seed, config, {Measure.COLD: "method"})


def receive(wire: Wire) -> Any:
    assert wire.poll(LONG_S)
    return wire.receive()


def receive_all(wire: Wire) -> list[State]:
    states = []
    while isinstance(message := receive(wire), Finished):
        states.append(message.outcome.state)
    assert message == JobDone()
    return states


def test_a_job_that_is_prepared_has_arrays_on_the_device_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    make, open_session = Problem.make, CpuBackend.open
    monkeypatch.setattr(Problem, "make", lambda *words, **given: (steps.append("inputs"), make(*words, **given))[1])
    monkeypatch.setattr(CpuBackend, "open", lambda *words: (steps.append("open"), open_session(*words))[1])
    job = make_job("doubles_cpu")
    built = Built((job.trials[0].identity,))
    with serving(tmp_path) as wire:
        wire.send(Prepare(job))
        assert receive(wire) == built
        wire.send(Describe("cpu"))
        assert isinstance(receive(wire), DeviceFacts), "it answers questions meanwhile"
        assert steps == ["inputs"]
        steps.clear()
        wire.send(job)
        assert receive_all(wire) == [State.OK]
        assert steps == ["open"]
        wire.send(Prepare(job))
        assert receive(wire) == built
        steps.clear()
        wire.send(replace(job, seed=4))
        assert receive_all(wire) == [State.OK]
        assert steps == ["inputs", "open"], "another job begins anew"


def test_what_fails_when_it_is_prepared_is_told_when_its_job_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("begins_cpu", "doubles_cpu")
    with serving(tmp_path) as wire:
        refuse = Mock(side_effect=ValueError("no such file"))
        monkeypatch.setattr("cuprof.worker.server.Problem.make", refuse)
        wire.send(Prepare(job))
        assert receive(wire) == Built(tuple(trial.identity for trial in job.trials))
        refuse.assert_called_once()
        assert not wire.poll(0.05)
        monkeypatch.undo()
        wire.send(job)
        assert receive_all(wire) == [State.WRONG_RESULT, State.OK]


def test_a_worker_that_prepares_beside_others_ends_where_they_have_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "open_backend", Mock(side_effect=DeviceMemoryError("the context", "no room")))
    worker, ours = make_worker(tmp_path)
    Wire(ours).send(Prepare(make_job("doubles_cpu")))
    worker.serve()
    assert not ours.poll()
    worker.page.close()


def test_a_device_that_refuses_ahead_is_opened_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    backend = CpuBackend(1)

    def open_backend(name: str, number: int | None) -> CpuBackend:
        opened.append(current_thread().name)
        if len(opened) == 1:
            raise DeviceMemoryError("the context", "no room")
        return backend

    monkeypatch.setattr(devices, "open_backend", open_backend)
    table = devices.DeviceTable(WorkerSettings())
    table.begin("cpu")
    assert table.get("cpu") is backend
    assert len(opened) == 2
    assert opened[0] != opened[1] == current_thread().name
