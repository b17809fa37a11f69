"""Measure the trials of one job, so that a trial that crashes or hangs affects no other trial.

One rule assigns blame: whatever ends suspiciously in a process that other trials have used runs once more in a
worker of its own, and that outcome counts.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace

from cuprof.backends.registry import get_spec
from cuprof.core.records import OF_FAMILY, Outcome, State
from cuprof.engine.worker_process import MOST_KILLS, WorkerDiedError, Workers
from cuprof.worker.messages import Built, Finished, Job, JobDone, JobTrial
from cuprof.worker.status_page import Phase, Status

MOST_IDLE_TURNS = 2
"""After this many turns in a row without an answer, run each remaining trial in a worker of its own."""


class Measurement:
    """Measure one job's trials on workers of their own, in turns: each lasts until the job is done or its worker lost.

    A trial in which the worker dies or hangs gets its outcome here; a new worker repeats the trials after it and those
    sampled beside it. If other trials ran in the same process, one of them may have left a thread or a corrupt heap
    behind, changed the clock, or kept the memory. A trial whose end this could explain is a suspect: it runs once more
    in a worker of its own, before any others, and no more often.
    """

    def __init__(self, workers: Workers, job: Job) -> None:
        self.workers, self.job, self.spec = workers, job, get_spec(job.backend)
        self._suspects: list[JobTrial] = []
        self._clock_is_sound = False
        """Whether an implausible time was no better alone: then the others' need no second look."""
        self._kills = 0
        self._left: dict[int, JobTrial] = {}
        """The open trials of this turn, by their index in its job."""
        self._is_alone = self._was_used = self._has_worked = False
        """Of this turn's worker: it has a single trial; it had jobs before; it has answered, or had."""

    def run(self) -> Iterator[Outcome]:
        """Yield every trial's outcome as it comes."""
        if self.job.isolated and self.workers.is_used:
            self.workers.drop_worker()
        left, idle_turns = list(self.job.trials), 0
        while left:
            self._is_alone, before = bool(self._suspects), len(left)
            if self._is_alone:
                self.workers.drop_worker()
                self.workers.reconsider(self.job.backend)
            for outcome in self._take_turn([self._suspects.pop(0)] if self._is_alone else left):
                left = [trial for trial in left if trial.identity != outcome.identity]
                yield outcome
            idle_turns = idle_turns + 1 if len(left) == before and not self._suspects else 0
            if idle_turns >= MOST_IDLE_TURNS:  # a trial that ends its worker may take care to avoid blame
                self._suspects = list(left)
            if self._is_alone:
                self.workers.drop_worker()
        if self.job.isolated:
            self.workers.drop_worker()

    def _take_turn(self, trials: Sequence[JobTrial]) -> Iterator[Outcome]:
        """Yield outcomes until the trials are done or their worker is lost, except those of suspects."""
        job, limits = replace(self.job, trials=tuple(trials)), self.workers.limits
        bounds = {Phase.BUILD: "build_s", Phase.CHECK: "check_s", Phase.TIME: "check_s"}
        self._left, self._was_used, self._has_worked = dict(enumerate(trials)), False, False
        try:
            worker = self.workers.worker
            self._has_worked = self._was_used = self.workers.is_used
            self.workers.is_used, sent, seen = True, time.monotonic(), (-1, Phase.IDLE)
            worker.send(job)
            for message in worker.messages():
                self.workers.stop_if_asked()
                if isinstance(message, Finished):
                    if (yield from self._finish(message)):
                        return
                elif isinstance(message, Built):
                    self.workers.take_built(message)
                elif isinstance(message, JobDone):
                    yield from self._end(message)
                    return
                status = worker.page.read()
                if (status.index, status.phase) != seen:
                    seen = status.index, status.phase
                    if 0 <= status.index < len(trials):
                        self.workers.watch(trials[status.index], status.phase)
                # An idle worker may have been so since long before the job was there: its device was others' turn.
                age_s = min(status.age_s, time.monotonic() - sent) if status.phase is Phase.IDLE else status.age_s
                bound = bounds.get(status.phase, "trial_s")
                if message is None and age_s > (limit_s := getattr(limits, bound)):
                    self.workers.drop_worker()
                    # A trial that hangs on a device would only hang again, and costs its limit once.
                    again, cause = self.spec.runs_in_process, f"stopped after {limit_s:g} s (limits.{bound})"
                    yield from self._blame(status, State.TIMED_OUT, cause, again=again)
                    return
        except WorkerDiedError as death:
            self.workers.drop_worker()
            if death.is_from_outside and self._kills < MOST_KILLS:
                self._kills += 1
                self._suspects += [self._left[death.status.index]] if death.status.index in self._left else []
            else:
                yield from self._blame(death.status, State.CRASHED, death.cause, death.log)

    def _finish(self, message: Finished) -> Generator[Outcome, None, bool]:
        """Yield a trial's outcome, or make it a suspect; return whether its worker does no more."""
        trial = self._left.get(message.index)
        if trial is None or trial.identity != message.outcome.identity:
            self.workers.worker.kill()
            raise WorkerDiedError("an answer without a question", self.workers.worker.page.read(), "")
        del self._left[message.index]
        self._has_worked = True
        outcome = self.workers.judge(message.outcome)
        is_implausible, is_over = outcome.state is State.IMPLAUSIBLE, message.lost
        if not self._is_alone and self._is_doubtful(message, outcome):
            self._suspects.append(trial)
            is_over |= is_implausible  # the clock may be changed for the trials after it, too
        else:
            self._clock_is_sound |= self._is_alone and is_implausible
            yield outcome
        if is_over:
            self.workers.drop_worker()
        return is_over

    def _is_doubtful(self, message: Finished, outcome: Outcome) -> bool:
        """Return whether what other trials did to the process may explain how a trial ended.

        A launch refused for its own size needs no second try, but for lack of memory it does: others may hold it.
        """
        if outcome.state is State.IMPLAUSIBLE and not (message.lost or self._clock_is_sound):
            return message.has_company or self.spec.is_host  # whose limits may have been measured while others used it
        failed = outcome.state in (State.LAUNCH_ERROR, State.WRONG_RESULT) and outcome.phase != "inputs"
        return message.has_company and (message.starved or (failed and self.spec.runs_in_process))

    def _end(self, message: JobDone) -> Iterator[Outcome]:
        """Yield the outcomes of the trials that a worker has ended its job without."""
        may_be_leftovers = self._was_used and (message.starved or self.spec.runs_in_process)
        if message.fault and may_be_leftovers and not message.unavailable:
            self.workers.drop_worker()  # an earlier job's leftovers may be why; a new worker will show
            return
        fault = message.fault or "the worker gave no answer"
        self.workers.is_unavailable = message.unavailable
        state = State.SKIPPED if message.unavailable or message.of_family else State.CRASHED
        phase = OF_FAMILY if message.of_family else "inputs"
        yield from _fail_all(self._left.values(), state, fault, message.log, phase)

    def _blame(
        self, status: Status, state: State, cause: str, log: str = "", *, again: bool = True
    ) -> Iterator[Outcome]:
        """Yield the outcome of the trial at which the worker was lost, or of all left if it was lost before the first.

        No trial is blamed if a worker that had run trials was lost outside any open one, perhaps through an earlier one
        (a corrupt heap, a thread), or if a variant wrote over the status page: a new worker will show.

        Args:
            again: a trial becomes a suspect instead if others had used its process. Where variants run in the process
                itself, building is running their own code, too; elsewhere it is compiling.
        """
        own_code = (Phase.CHECK, Phase.TIME, *([Phase.BUILD] if self.spec.runs_in_process else []))
        erased = status.phase not in (Phase.START, Phase.INPUTS) and len(self._left) > 1
        blamed: Iterable[JobTrial] = () if (self._has_worked and not self._is_alone) or erased else self._left.values()
        if (trial := self._left.get(status.index)) is not None:
            if again and not self._is_alone and status.has_company and status.phase in own_code:
                self._suspects.append(trial)
                return
            blamed = (trial,)
        message = f"{cause} while {status.phase}"
        yield from _fail_all(blamed, state, message, log, status.phase.name.lower())


def _fail_all(trials: Iterable[JobTrial], state: State, message: str, log: str, phase: str) -> Iterator[Outcome]:
    for trial in trials:
        yield Outcome(trial.identity, state, message, log, phase, started_at=time.time())
