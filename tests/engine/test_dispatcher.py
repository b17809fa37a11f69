"""Executors side by side, with work that needs no worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from cuprof.config.model import LimitsConfig
from cuprof.core.records import Outcome, State
from cuprof.engine.dispatcher import Dispatcher
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.engine.grid import GridScheduler
from cuprof.engine.observer import Observer
from cuprof.engine.worker_process import StoppedError
from cuprof.worker.messages import Job, WorkerSettings
from tests.engine.test_grid import make_named


class Played(Executor):
    """Answer every trial after a moment; the first executor's device may be lost."""

    most, busy, changed = 0, 0, threading.Condition()
    wanted = 1
    """How many are to work at once: so many are waited for."""
    fault: BaseException | None = None

    def __init__(self, number: int, lost: bool = False) -> None:
        super().__init__(WorkerSettings(), LimitsConfig())
        self.place, self.fails = number, lost

    def run(self, batch: Batch) -> Iterator[Result]:
        if batch.job is None:
            return
        if self.fault is not None and self.place == 0:
            raise self.fault
        with self.changed:
            Played.busy += 1
            Played.most = max(Played.most, Played.busy)
            self.changed.notify_all()
            self.changed.wait_for(lambda: Played.most >= self.wanted, 60)
        time.sleep(0.02)
        for trial in batch.job.trials:
            self.stop_if_asked()
            outcome = Outcome(trial.identity, State.SKIPPED if self.fails else State.OK, "it has left" * self.fails)
            yield Result(batch, outcome, is_lost=self.fails)
        with self.changed:
            Played.busy -= 1

    def builds_ahead(self, backend: str) -> bool:
        return False


class Recorded(Observer):
    """Stand in for a recorder: every result is kept, in the thread that reads events."""

    def __init__(self, executors: Sequence[Executor]) -> None:
        self.executors, self.observer, self.prepared, self.trials = executors, self, self, {}
        self.config, self.store = None, None
        self.thread, self.kept, self.notes = threading.get_ident(), list[str](), list[str]()
        self.fault: BaseException | None = None

    def record(self, results: Sequence[tuple[Executor, Result]]) -> list[tuple[Executor, Result]]:
        assert threading.get_ident() == self.thread
        if self.fault is not None:
            raise self.fault
        self.kept += [result.outcome.identity for _, result in results]
        return [*results]

    def note(self, text: str) -> None:
        self.notes.append(text)


def dispatch(recorder: Recorded, jobs: Sequence[Job]) -> None:
    scheduler = GridScheduler(jobs, len(recorder.executors))
    told, keep, ask = list[str](), scheduler.tell, scheduler.ask
    given: dict[Executor, Batch] = {}

    def watch(executor: Executor) -> Batch | None:
        last = given.pop(executor, None)
        if last is not None and last.job is not None:
            assert {trial.identity for trial in last.job.trials} <= {*told}, "told before the next batch"
        batch = ask(executor)
        if batch is not None:
            given[executor] = batch
        return batch

    def tell(executor: Executor, result: Result) -> None:
        assert result.outcome.identity in recorder.kept, "durable before told"
        told.append(result.outcome.identity)
        keep(executor, result)

    scheduler.tell, scheduler.ask = tell, watch  # type: ignore[method-assign]
    Dispatcher(recorder).run(scheduler)  # type: ignore[arg-type]
    assert told == recorder.kept


@pytest.mark.parametrize("count", [1, 3])
def test_all_is_told_from_one_thread_and_several_executors_work_at_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("most", 0), ("busy", 0), ("wanted", count)):
        monkeypatch.setattr(Played, name, value)
    recorder = Recorded([Played(number) for number in range(count)])
    dispatch(recorder, [make_named(n, "ab") for n in range(6)])
    assert sorted(recorder.kept) == sorted(f"{n}{name}" for n in range(6) for name in "ab")
    assert Played.most == count


@pytest.mark.parametrize("place", ["executor", "recorder"])
def test_what_is_raised_ends_all_executors(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorded([Played(number) for number in range(2)])
    if place == "executor":
        monkeypatch.setattr(Played, "fault", KeyboardInterrupt())
    else:
        recorder.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        dispatch(recorder, [make_named(n, "a") for n in range(40)])
    for executor in recorder.executors:
        with pytest.raises(StoppedError):
            executor.stop_if_asked()


def test_the_work_of_a_lost_executor_is_for_the_others_and_the_last_one_records_it() -> None:
    recorder = Recorded([Played(0, lost=True), Played(1)])
    dispatch(recorder, [make_named(n, "a") for n in range(4)])
    assert sorted(recorder.kept) == [f"{n}a" for n in range(4)]
    assert recorder.notes == ["host has failed (it has left); its work is given to the others"]
    alone: Any = Recorded([Played(0, lost=True)])
    dispatch(alone, [make_named(0, "a")])
    assert alone.kept == ["0a"]
