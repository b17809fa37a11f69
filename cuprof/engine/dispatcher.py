"""Keep the executors of a sweep busy: a thread for each, and one queue of events that one thread answers."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread
from typing import Protocol

from cuprof.engine.calibration import Calibrator
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.engine.recorder import Recorder
from cuprof.engine.worker_process import StoppedError
from cuprof.worker.status_page import Phase

Event = tuple[Executor, Result] | Callable[[], object] | BaseException
"""A trial's result, a call in the dispatcher's thread, or what an executor's thread raised."""

POLL_S, BUSY_POLL_S = 0.02, 0.5
"""Ask the scheduler this often whether there is something for an executor that has nothing to do; while all are busy,
this thread had better not take part in what they time."""
JOIN_S = 15.0
"""Wait this long for an executor's thread. That is longer than ending a worker takes."""


class Scheduler(Protocol):
    """Choose the next trials to measure: all of a plan, or a search's proposals.

    A scheduler may go by earlier results: it receives each one, already durable in the store, before the same executor
    gets another batch.
    """

    @property
    def done(self) -> bool:
        """Return whether no executor will ever get another batch."""

    def ask(self, executor: Executor) -> Batch | None:
        """Return a free executor's next batch; None if there is nothing for it now."""

    def tell(self, executor: Executor, result: Result) -> None:
        """Receive the result of one trial, except those that are stored beside others."""

    def release(self, executor: Executor) -> None:
        """Take back the open trials of an executor that is lost for good."""


class Dispatcher:
    """Run batches until the scheduler is done.

    Results are stored, reported and told to the scheduler in the caller's thread, in this order, before the same
    executor gets another batch. Results that are there together share a transaction.

    Attributes:
        locks: keep other cuprof processes off a batch's device: their work would show in its times.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.executors = recorder, recorder.executors
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        note = partial(self.call, recorder.observer.note)
        self.locks, self.calibrator = DeviceLocks(note), Calibrator(recorder, note)
        self._inboxes: dict[Executor, queue.SimpleQueue[Batch | None]] = {}
        self._idle: dict[Executor, None] = {}
        self._waiting: set[Executor] = set()
        self._meanwhile: Callable[[], object] | None = None

    def run(self, scheduler: Scheduler, meanwhile: Callable[[], object] | None = None) -> None:
        """Give batches to executors that are free until the scheduler is done.

        Whatever an executor or the scheduler raises is raised here, after all executors have been stopped.

        Args:
            meanwhile: called, to start a thread, once a worker has its first job; before, the worker would wait for it.
        """
        self.scheduler, self._meanwhile = scheduler, meanwhile
        threads = [Thread(target=self._serve, args=(executor,), daemon=True) for executor in self.executors]
        for executor in self.executors:
            self._inboxes[executor], self._idle[executor] = queue.SimpleQueue(), None
        is_over = False
        try:
            for thread in threads:
                thread.start()
            while not (self.scheduler.done and len(self._idle) == len(self._inboxes)):
                for executor in list(self._idle):
                    if (batch := self.scheduler.ask(executor)) is not None:
                        del self._idle[executor]
                        self._inboxes[executor].put(batch)
                if not self.scheduler.done:
                    self._answer()
            is_over = True
        finally:
            self._end(threads, is_over)

    def _answer(self) -> None:
        """Answer the events that are there, after waiting for the first one for a moment."""
        events, results = list[Event](), list[tuple[Executor, Result]]()
        with suppress(queue.Empty):
            events.append(self._events.get(timeout=POLL_S if self._idle else BUSY_POLL_S))
            while True:
                events.append(self._events.get_nowait())
        for event in events:
            if not isinstance(event, tuple):
                self._conclude(results)
                if isinstance(event, BaseException):
                    raise event
                event()
            elif not event[1].is_lost or self._inboxes.keys() == {event[0]}:
                results.append(event)
            elif event[0] in self._inboxes:
                self._conclude(results)
                self._retire(*event)
        self._conclude(results)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called in the thread that runs this; from any thread."""
        self._events.put(partial(function, *arguments))

    def _start(self, executor: Executor, identity: str, phase: Phase) -> None:
        """Report that a trial enters a phase."""
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile:
            meanwhile()
        trial, name = self.recorder.trials[identity], phase.name.lower()
        executor.doing = f"{name}: {trial.label}"
        self.recorder.observer.trial_started(trial, name)

    def _rest(self, executor: Executor) -> None:
        executor.doing = ""
        if executor in self._inboxes:
            self._idle[executor] = None

    def _conclude(self, results: list[tuple[Executor, Result]]) -> None:
        for executor, result in self.recorder.record(results) if results else ():
            self.scheduler.tell(executor, result)
        results.clear()

    def _retire(self, executor: Executor, result: Result) -> None:
        """Give the work of an executor whose device has failed to others."""
        self._inboxes.pop(executor).put(None)
        self.scheduler.release(executor)
        if executor.number:
            self.recorder.store.leave([executor.number])
            executor.number = 0
        self.recorder.observer.note(
            f"{executor.name} has failed ({result.outcome.message}); its work is given to the others"
        )

    def _serve(self, executor: Executor) -> None:
        """Run an executor's batches in a thread of its own. Linux ends a worker with the thread that started it.

        A device takes half a second to give a worker's memory back, and nobody here waits for that.
        """
        inbox = self._inboxes[executor]
        executor.watch = lambda trial, phase: self.call(self._start, executor, trial.identity, phase)
        executor.judge = lambda outcome: self.calibrator.believe(executor, outcome)
        executor.reconsider = lambda backend: self.calibrator.reconsider(executor, backend)
        try:
            while (batch := inbox.get()) is not None:
                with self._turn(executor, batch):
                    if batch.job and batch.job.methods and executor.calibrates(batch.job.backend):
                        self.calibrator.calibrate(executor, batch.job.backend)
                    for result in executor.run(batch):
                        self._events.put((executor, result))
                self.call(self._rest, executor)
        except StoppedError:
            pass
        except BaseException as error:
            self._events.put(error)
        finally:
            # They would hold one another, and the plan, for as long as there is memory.
            executor.be_unwatched()

    @contextmanager
    def _turn(self, executor: Executor, batch: Batch) -> Iterator[None]:
        """Hold the device of a batch that measures."""
        device = executor.find_device(batch.job.backend) if batch.job else None
        if device is None:
            yield
            return
        executor.doing = "waiting for its turn on the device"
        self._waiting.add(executor)
        with self.locks.hold(device):
            self._waiting.discard(executor)
            executor.stop_if_asked()
            executor.doing = ""
            yield

    def _end(self, threads: Sequence[Thread], is_over: bool) -> None:
        """End the executors' threads, except one that waits for its device: that one ends when it gets its turn."""
        for executor in self.executors:
            if not is_over:
                executor.stop()
            if executor in self._inboxes:
                self._inboxes[executor].put(None)
        give_up = time.monotonic() + JOIN_S
        for executor, thread in zip(self.executors, threads, strict=True):
            while thread.is_alive() and executor not in self._waiting and time.monotonic() < give_up:
                thread.join(POLL_S)
