"""What the worker does while it waits for its first job."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Pipe
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from cuprof.backends.cpu.backend import CpuBackend
from cuprof.backends.registry import get_spec
from cuprof.core.point import Point
from cuprof.families import Family, Signature
from cuprof.families.origin import Folder
from cuprof.worker import devices, service
from cuprof.worker.messages import Build, Built, Describe, Described, Job, JobTrial, Open, WorkerSettings
from cuprof.worker.status_page import Phase, StatusPage
from cuprof.worker.wire import Wire
from cuprof.worker.workload import Workload

FAMILY = Path(__file__).parents[1] / "data" / "families" / "backends"
LONG_S = 60.0


@contextmanager
def serving(folder: Path) -> Iterator[Wire]:
    """Yield the engine's end of the pipe of a worker in a thread."""
    ours, theirs = Pipe()
    page = StatusPage(folder / "status", create=True)
    worker = service.Worker(Wire(theirs), page, WorkerSettings({"cpu": 1}))
    thread = Thread(target=worker.serve)
    thread.start()
    try:
        yield Wire(ours)
    finally:
        ours.close()
        thread.join(LONG_S)
        page.close()


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, ...]], Event]:
    """Return what is imported ahead, where opening the CPU imports a module, and an event that follows."""
    found, event = [], Event()

    def take(*modules: str) -> None:
        found.append(modules)
        event.set()

    monkeypatch.setattr(service, "get_spec", lambda name: replace(get_spec(name), imports=("slow",)))
    monkeypatch.setattr(service, "_import", take)
    return found, event


def test_what_a_device_needs_is_imported_once_nothing_more_is_asked(
    tmp_path: Path, imported: tuple[list[tuple[str, ...]], Event]
) -> None:
    found, event = imported
    with serving(tmp_path) as wire:
        wire.send(Describe(("cpu",)))
        wire.send(Describe(("cpu",)))
        assert isinstance(wire.receive(), Described)
        assert isinstance(wire.receive(), Described)
        assert event.wait(LONG_S)
    assert found == [("slow",)]


def test_without_a_device_nothing_is_imported(tmp_path: Path, imported: tuple[list[tuple[str, ...]], Event]) -> None:
    found, event = imported
    with serving(tmp_path) as wire:
        wire.send(Describe(("nothing like it",)))
        said = wire.receive()
        assert isinstance(said, Described)
        assert not said.found
        assert not event.wait(4 * service.QUESTIONS_S)
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
        wire.send(Describe(("nothing like it",)))
        assert isinstance(wire.receive(), Described)
    assert opened == [("broken", None), ("cpu", 1)]


CHEATS = """
import numpy as np
from cuprof.families import Array, Axis, Family, Launch, Program, Signature, Tolerance

def right(x):
    return 2 * x

family = Family(
    name="cheats", title="2 x", axes=(Axis("n", 8),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float64")}, {"y": Array((problem.n,), "float64")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n)},
    reference=lambda problem, inputs: {"y": right(inputs["x"])},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 16 * problem.n,
)

@family.cuda("cheats", source="k.cu")
def cheats(problem, tune):
    def wrong(*given):
        return {"y": np.zeros(problem.n)}
    global right
    right, family.reference, np.random.default_rng = wrong, wrong, wrong
    return Program((Launch("k", (1,)),))
"""


def test_what_a_program_replaces_while_it_is_made_ahead_has_no_part_in_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cheats"
    folder.mkdir()
    (folder / "family.py").write_text(CHEATS)
    (folder / "k.cu").write_text('extern "C" __global__ void k() {}')
    made: list[Workload] = []
    begun: list[str] = []

    class Building(CpuBackend):
        def build_ahead(self, signature: Signature, builds: Any, limit_s: float | None = None) -> list[Any]:
            begun.extend(variant.name for variant, _, _ in builds)
            return [[]]

    def keep(backend: object, workload: Workload, *_: object) -> object:
        made.append(workload)
        raise ValueError("enough seen")

    monkeypatch.setattr(devices, "open_backend", lambda name, number: Building())
    monkeypatch.setattr(service, "TrialRunner", keep)
    job = Job(Folder(folder), "cpu", Point(n=8), (JobTrial("id", "cheats", Point(), ""),), seed=3)
    with serving(tmp_path) as wire:
        wire.send(Build(job, 10.0))
        assert wire.receive() == Built(("id",))
        wire.send(job)
        assert "enough seen" in wire.receive().fault
    assert begun == ["cheats"]
    (workload,) = made
    for each in workload.sets[: workload.compared]:
        assert each.reference is not None
        assert (each.reference.open()["y"] == 2 * each.inputs["x"]).all()
        assert each.inputs["x"].any()


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

    def make(family: Family, job: Job) -> Workload:
        steps.append(entered[-1])
        raise ValueError("enough seen")

    monkeypatch.setattr(devices, "open_backend", lambda name, number: Building())
    monkeypatch.setattr(Workload, "make", make)
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
