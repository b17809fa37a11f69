"""A worker that is interrupted amid the engine's look at it can still be ended."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace

import pytest

from cuprof.engine import launch
from cuprof.engine.launch import Launched
from cuprof.sandbox.settings import Sandbox
from tests.interrupter import Interrupter


def launched(folder: Path) -> Launched:
    process = subprocess.Popen(["sleep", "1000"])
    return Launched(process, None, None, folder / "log", SimpleNamespace(path=folder))  # type: ignore[arg-type]


def test_an_interrupt_at_any_instruction_of_a_look_leaves_no_lock_behind(tmp_path: Path) -> None:
    worker = launched(tmp_path)
    with Interrupter() as counter:
        assert worker.poll() is None
    for at in range(1, counter.count + 1):
        with pytest.raises(KeyboardInterrupt), Interrupter(at):  # the last ones strike as the trace ends
            worker.poll()
        free = worker.process._waitpid_lock.acquire(blocking=False)  # type: ignore[attr-defined]
        assert free, at
        worker.process._waitpid_lock.release()  # type: ignore[attr-defined]
    assert counter.count > 50
    worker.kill()
    assert worker.process.returncode is not None


def test_a_sandbox_may_name_more_files_than_a_command_line_holds() -> None:
    hidden = tuple(f"/nowhere/{number:0100}" for number in range(3000))
    worker = launch._launch(Sandbox(namespaces=False, hidden=hidden))
    assert worker.poll() is None
    worker.discard()


def test_workers_of_the_next_job_are_started_where_those_of_the_first_were(monkeypatch: pytest.MonkeyPatch) -> None:
    spares: list[object] = []
    monkeypatch.setattr(launch, "_spares", spares)
    monkeypatch.setattr(launch, "_at_first", [])
    imported: list[tuple[str, ...]] = []

    def start(sandbox: None = None, modules: tuple[str, ...] = (), at_once: tuple[str, ...] = ()) -> SimpleNamespace:
        imported.append(modules)
        return SimpleNamespace(poll=lambda: None, sandbox=sandbox, place=Path.cwd(), number=len(imported))

    monkeypatch.setattr(launch, "_launch", start)
    monkeypatch.setattr("atexit.register", lambda function: None)
    launch.prestart_for_next_job()
    assert spares == []
    launch.prestart(2)
    launch.prestart_for_next_job(("cupy", "torch"))
    assert len(spares) == 4
    assert len({id(launch.take()) for _ in range(2)}) == 2
    launch.prestart_for_next_job()
    assert len(spares) == 4
    assert imported == [(), (), ("cupy", "torch"), ("cupy", "torch"), (), ()]


def make_idle(sandbox: Sandbox | None, at_once: tuple[str, ...] = ()) -> SimpleNamespace:
    return SimpleNamespace(poll=lambda: None, discard=lambda: None, sandbox=sandbox, place=Path.cwd())


def test_a_worker_started_ahead_is_not_taken_once_the_folder_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_spares", [])
    monkeypatch.setattr(launch, "_at_first", [0])
    monkeypatch.setattr(launch, "_launch", make_idle)
    launch.prestart(2)
    first, other = launch._spares
    assert launch.take() is first
    monkeypatch.chdir(tmp_path)
    assert launch.take() is not other
    assert launch._spares == []


def test_a_worker_started_ahead_is_taken_for_its_own_sandbox_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_spares", [])
    monkeypatch.setattr(launch, "_at_first", [0])
    monkeypatch.setattr(launch, "_launch", make_idle)
    narrow, wide = Sandbox(devices=False), Sandbox()
    launch.prestart(sandbox=narrow)
    (spare,) = launch._spares
    assert launch.take() is not spare
    assert launch.take(wide) is not spare
    launch.prestart(sandbox=Sandbox(devices=False))
    assert launch._spares == [spare]
    assert launch.take(narrow) is spare
    assert launch.take(narrow) is not spare


def test_a_new_worker_waits_for_those_that_retire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = Event()
    order: list[str] = []
    worker = launched(tmp_path)
    monkeypatch.setattr(worker, "discard", lambda: (may_end.wait(60), worker.kill(), order.append("ended")))
    monkeypatch.setattr(launch, "_launch", lambda sandbox: order.append("started"))
    monkeypatch.setattr(launch, "_spares", [])
    worker.retire()
    assert worker.process.poll() is None
    Timer(0.1, may_end.set).start()
    launch.take()
    assert order == ["ended", "started"]
    assert worker.process.returncode is not None
