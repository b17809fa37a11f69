"""Legs of kernels that are prepared side by side before the first is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuprof.config.model import SweepConfig
from cuprof.core.records import DeviceFacts
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.executor import Executor
from cuprof.families.origin import Folder, load_family
from cuprof.judge import ahead as module
from cuprof.judge.ahead import Ahead
from cuprof.judge.contenders import Contender
from cuprof.judge.court import _Trial
from cuprof.judge.report import Ruling
from cuprof.judge.warden import Warden, start_ahead
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Job
from tests.judge.conftest import FAMILIES, FEW, Court
from tests.judge.test_sources import CL, CL_INDEX, LIKE, body, check, require_opencl

GPU = DeviceFacts("cuda", 0, "a GPU", memory_bytes=64 << 30)


class Bench:
    """Two contenders, and executors whose workers are always ready unless they are named."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, make_trial: Callable[..., Any]) -> None:
        self.steps: list[str] = []
        self.slow, self.is_locked = set[str](), False
        self.trial = make_trial("2" * 32, device=GPU)
        self.base, self.mine = self.contender("base"), self.contender("mine")
        self.confined = Sandbox()
        names: dict[int, str] = {}

        def prepare(executor: Executor, job: Job) -> None:
            names[id(executor)] = job.trials[0].variant
            self.steps.append(f"prepare {names[id(executor)]}")

        def await_ready(executor: Executor, until: float) -> bool:
            assert self.is_locked, "no other cuprof measures meanwhile"
            self.steps.append(f"await {names[id(executor)]}")
            return names[id(executor)] not in self.slow

        @contextmanager
        def hold(locks: DeviceLocks, device: DeviceFacts) -> Iterator[None]:
            assert device is GPU
            self.is_locked = True
            yield
            self.is_locked = False

        monkeypatch.setattr(Executor, "prepare", prepare)
        monkeypatch.setattr(Executor, "await_ready", await_ready)
        monkeypatch.setattr(Executor, "retire_worker", lambda one: self.steps.append(f"end {names.get(id(one), '-')}"))
        monkeypatch.setattr(DeviceLocks, "hold", hold)
        monkeypatch.setattr(module, "count_at_once", lambda: 3)
        monkeypatch.setattr(module, "available_bytes", lambda: 1 << 40)
        family = load_family(FAMILIES / "vector")
        config = SweepConfig(experiment="", family="vector")
        self.idle: list[Executor] = []
        self.ahead = Ahead(config, family, {"cuda": GPU}, self.confine, DeviceLocks(print), self.idle)

    def contender(self, name: str) -> Contender:
        trial = replace(self.trial, variant=name, problem=type(self.trial.problem)(n=1024, dtype="float32"))
        file = None if name == "base" else Path(f"{name}.cu")
        return Contender(name, "cuda", Folder(FAMILIES / "vector"), (trial,), False, None, file)

    def confine(self, contender: Contender) -> Sandbox | None:
        return None if contender is self.base else self.confined


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, make_trial: Callable[..., Any]) -> Bench:
    """Return a bench on which nothing has been prepared."""
    return Bench(monkeypatch, make_trial)


def test_the_next_legs_are_prepared_together_and_again_when_they_are_used_up(bench: Bench) -> None:
    ahead, left = bench.ahead, [bench.base, bench.mine] * 2 + [bench.base]
    ahead.begin(left)
    assert ahead.await_ready() is None
    assert bench.steps == [
        *(f"prepare {name}" for name in ("base", "mine", "base")),
        *("await base", "await mine"),
        "await base",
    ]
    bench.steps.clear()
    taken = []
    for _ in range(3):
        contender = left.pop(0)
        leg = ahead.take(contender)
        assert leg is not None
        taken.append(leg.executor)
        if left[0] is not bench.mine or ahead.waiting:
            ahead.begin(left)
            assert ahead.await_ready() is None
    assert bench.steps == [], "a worker that has been used stays idle: to end it would disturb the next one"
    assert len({id(executor) for executor in taken}) == 3
    assert len({leg.sweep.seed for leg in ahead.waiting}) == len(ahead.waiting)
    ahead.begin(left)
    assert ahead.await_ready() is None
    assert bench.steps == [
        "end base",
        "end mine",
        "end base",
        "prepare mine",
        "prepare base",
        "await mine",
        "await base",
    ]
    ahead.end()
    assert bench.steps[-2:] == ["end mine", "end base"]
    assert not bench.is_locked


def test_a_leg_that_does_not_get_ready_runs_by_itself(bench: Bench) -> None:
    bench.slow.add("mine")
    bench.ahead.begin([bench.base, bench.mine, bench.base])
    assert bench.ahead.await_ready() is bench.mine
    assert bench.steps[-3:] == ["end base", "end mine", "end base"]
    assert (bench.ahead.waiting, bench.is_locked) == ([], False)
    assert bench.ahead.take(bench.mine) is None
    bench.ahead.is_on = False  # it was right by itself
    bench.ahead.begin([bench.base, bench.mine, bench.base])
    assert bench.ahead.waiting == []
    assert bench.ahead.await_ready() is None


def test_legs_share_cores_and_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [bench.base, bench.mine] * 8
    for cores, on_host, expected in (
        (8, 1 << 40, 8),
        (3, 1 << 40, 3),
        (8, 9 << 30, 2),
        (8, 5 << 30, 0),
        (1, 1 << 40, 0),
    ):
        monkeypatch.setattr(module, "count_at_once", lambda cores=cores: cores)
        monkeypatch.setattr(module, "available_bytes", lambda on_host=on_host: on_host)
        bench.ahead.begin(turns)
        assert len(bench.ahead.waiting) == expected
        bench.ahead.end()


def test_open_workers_are_used_for_their_own_sandbox_and_ended_where_there_is_no_room(bench: Bench) -> None:
    bench.idle += [module.make_executor(bench.ahead.config, one) for one in (None, bench.confined, bench.confined)]
    first, second, third = bench.idle
    bench.ahead.begin([bench.base, bench.mine, bench.base])
    assert [leg.executor for leg in bench.ahead.waiting[:2]] == [first, second]
    assert bench.ahead.waiting[2].executor not in (first, second, third)
    assert bench.steps[-1] == "end -"
    assert bench.idle == []
    bench.ahead.end()


def test_workers_start_in_the_order_of_the_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[int, Sandbox | None]] = []
    monkeypatch.setattr(
        "cuprof.judge.warden.prestart", lambda count, modules, sandbox: started.append((count, sandbox))
    )
    monkeypatch.setattr("cuprof.judge.warden.count_at_once", lambda: 4)
    files = [tmp_path / "a" / "one.cu", tmp_path / "b" / "two.cu"]
    warden = Warden(tmp_path, files, memory_bytes=1)
    first = warden.list_first(tmp_path / "family", 1)
    assert [one and one.visible[-1] for one in first] == [None, str(tmp_path / "a"), str(tmp_path / "b"), None]
    assert warden.list_first(tmp_path / "family", 3) == first
    start_ahead(first)
    assert [count for count, _ in started] == [1, 1, 1, 2]
    monkeypatch.setattr("cuprof.judge.warden.count_at_once", lambda: 1)
    assert warden.list_first(tmp_path / "family", 1) == []


def test_sources_on_a_device_of_its_own(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    require_opencl()
    steps: list[str] = []
    prepare, run = Executor.prepare, Executor.measure
    for name in ("cuprof.judge.ahead.is_host", "cuprof.judge.contenders.is_host"):
        monkeypatch.setattr(name, lambda device: False)
    monkeypatch.setattr("cuprof.judge.ahead.count_at_once", lambda: 8)
    monkeypatch.setattr("cuprof.judge.ahead.CONTEXT_BYTES", 1 << 20)
    monkeypatch.setattr("cuprof.judge.ahead.PATIENCE_S", 100.0)  # where others have the processors
    monkeypatch.setattr(Executor, "prepare", lambda *words: (steps.append("prepare"), prepare(*words))[1])
    monkeypatch.setattr(Executor, "measure", lambda *words: (steps.append("measure"), run(*words))[1])
    check(court, "cl", CL, CL_INDEX, "opencl", measure=FEW)
    assert steps == ["prepare"] * 5 + ["measure"] * 5
    steps.clear()
    first, second = (court.write(f"{name}.cl", CL + body(CL_INDEX, "2.0f")) for name in ("first", "second"))
    monkeypatch.setattr(Executor, "await_ready", lambda *_: False)
    found = court.judge(first, second, **LIKE, measure=FEW)
    assert {each.ruling for each in found.candidates} <= {Ruling.GOOD, Ruling.NOT_FASTER}
    assert steps == ["prepare"] * 4 + ["measure"] * 4, "once it was right by itself, the others take their turns"


def test_the_worker_that_is_open_takes_the_first_leg(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    require_opencl()
    executors: list[Executor] = []
    run = Executor.measure
    for name in ("cuprof.judge.ahead.is_host", "cuprof.judge.contenders.is_host"):
        monkeypatch.setattr(name, lambda device: False)
    monkeypatch.setattr(Executor, "measure", lambda one, job: (executors.append(one), run(one, job))[1])

    def open_ahead(trial: _Trial, config: SweepConfig) -> None:
        trial.idle.append(module.make_executor(config, None))
        executors.append(trial.idle[0])

    monkeypatch.setattr(_Trial, "_open_ahead", open_ahead)
    file = court.write("mine.cl", CL + body(CL_INDEX, "2.0f"))
    (found,) = court.judge(file, rounds=2, **LIKE, measure=FEW).candidates
    assert found.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), found.message
    opened, first, *others = executors
    assert first is opened
    assert len(set(map(id, [first, *others]))) == len([first, *others]) == 5
