"""Measure the trials of one job, so that a trial that crashes or hangs affects no other trial.

One rule says who is blamed: whatever ends suspiciously in a process that other trials have used runs once more in a
worker of its own, and that outcome counts.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

from cuprof.backends.registry import get_spec
from cuprof.config.model import LimitsConfig
from cuprof.core.records import OF_FAMILY, Outcome, State
from cuprof.engine.worker_process import WorkerDiedError
from cuprof.engine.workers import Workers
from cuprof.worker.messages import Built, Finished, Job, JobDone, JobTrial
from cuprof.worker.status_page import PHASE_TEXT, Phase, Status

MOST_IDLE_TURNS = 2
"""After this many turns in a row without an answer, run each remaining trial in a worker of its own."""
FROM_OUTSIDE = ("SIGKILL", "SIGTERM")
"""Signals from people, batch systems and a kernel short of memory; the code in a process seldom sends itself these."""
MOST_KILLS = 3
"""Allow this many such kills within a job before blaming the trial that was running."""


class Measurement:
    """Measure one job's trials on workers of their own.

    A trial in which the worker dies or hangs gets its outcome here; a new worker repeats the trials after it and those
    sampled beside it. If other trials ran in the same process, one of them may have left a thread or a corrupt heap
    behind, changed the clock, or kept the memory. A trial whose end this could explain is a suspect: it runs once more
    in a worker of its own, before any others.
    """

    def __init__(self, workers: Workers, job: Job) -> None:
        self.workers, self.job = workers, job
        self._left = list(job.trials)
        self._suspects: list[JobTrial] = []
        self._clock_is_sound = False
        """Whether an implausible time was no better alone: then the others' need no second look."""
        self._kills = 0

    def run(self) -> Iterator[Outcome]:
        """Yield every trial's outcome as it comes."""
        if self.job.isolated:
            self.workers.drop_worker()
        idle_turns = 0
        while self._left:
            alone, before = bool(self._suspects), len(self._left)
            if alone:
                self.workers.drop_worker()
                self.workers.reconsider(self.job.backend)
            given = (self._suspects.pop(0),) if alone else tuple(self._left)
            for outcome in _Turn(self, replace(self.job, trials=given), alone).run():
                self._left = [trial for trial in self._left if trial.identity != outcome.identity]
                yield outcome
            idle_turns = idle_turns + 1 if len(self._left) == before and not self._suspects else 0
            if idle_turns >= MOST_IDLE_TURNS:  # a trial that ends its worker may take care to avoid blame
                self._suspects = list(self._left)
            if alone:
                self.workers.drop_worker()
        if self.job.isolated:
            self.workers.drop_worker()

    def is_suspect(self, message: Finished, outcome: Outcome) -> bool:
        """Return whether what other trials did to the process may explain how a trial ended.

        A launch refused for its own size needs no second try, but for lack of memory it does: others may hold it.
        """
        spec = get_spec(self.job.backend)
        if outcome.state is State.IMPLAUSIBLE and not (message.lost or self._clock_is_sound):
            return message.has_company or spec.is_host  # whose limits may have been measured while others used it
        if not message.has_company:
            return False
        failed = outcome.state in (State.LAUNCH_ERROR, State.WRONG_RESULT) and outcome.phase != "inputs"
        return message.starved or (failed and spec.runs_in_process)

    def suspect(self, trial: JobTrial) -> None:
        """Have a trial run in a worker of its own next."""
        self._suspects.append(trial)

    def note_alone(self, outcome: Outcome) -> None:
        """Take the outcome of a trial in a worker of its own."""
        self._clock_is_sound |= outcome.state is State.IMPLAUSIBLE

    def is_forgiven(self, error: WorkerDiedError) -> bool:
        """Return whether the worker was ended from outside, which is nobody's fault a few times."""
        forgiven = is_from_outside(error) and self._kills < MOST_KILLS
        self._kills += forgiven
        return forgiven


class _Turn:
    """One attempt at some trials on one worker.

    Args:
        alone: the job's single trial is the only one in its worker. It never becomes a suspect again, so no trial runs
            more than twice because of others.
    """

    def __init__(self, measurement: Measurement, job: Job, alone: bool) -> None:
        self.measurement, self.workers = measurement, measurement.workers
        self.job, self.alone = job, alone
        self.left = dict(enumerate(job.trials))
        self.was_used = self.worked = False
        spec = get_spec(job.backend)
        self.in_process = spec.runs_in_process

    def run(self) -> Iterator[Outcome]:
        """Yield outcomes until the job is done or its worker is lost, except those of trials that become suspects."""
        try:
            worker = self.workers.worker
            self.worked = self.was_used = self.workers.is_used
            self.workers.is_used = True
            sent = time.monotonic()
            worker.send(self.job)
            seen: Status | None = None
            for message in worker.messages():
                self.workers.stop_if_asked()
                if isinstance(message, Finished):
                    is_over = yield from self._finish(message)
                    if is_over:
                        return
                elif isinstance(message, Built):
                    self.workers.builds.take(message)
                elif isinstance(message, JobDone):
                    yield from self._end(message)
                    return
                status = worker.page.read()
                if seen is None or (status.index, status.phase) != (seen.index, seen.phase):
                    if 0 <= status.index < len(self.job.trials):
                        self.workers.watch(self.job.trials[status.index], status.phase)
                    seen = status
                # An idle worker may have been so since long before the job was there: its device was others' turn.
                age_s = min(status.age_s, time.monotonic() - sent) if status.phase is Phase.IDLE else status.age_s
                if message is None and age_s > limit_of(status.phase, self.workers.limits):
                    yield from self._time_out(status)
                    return
        except WorkerDiedError as death:
            self.workers.drop_worker()
            yield from self._bury(death)

    def _finish(self, message: Finished) -> Generator[Outcome, None, bool]:
        """Yield a trial's outcome, or make it a suspect; return whether its worker does no more.

        Raises:
            WorkerDiedError: the answer matches no open trial; the worker is given up.
        """
        trial = self.left.get(message.index)
        if trial is None or trial.identity != message.outcome.identity:
            self.workers.worker.kill()
            raise WorkerDiedError("an answer without a question", self.workers.worker.page.read(), "")
        del self.left[message.index]
        self.worked = True
        outcome = self.workers.judge(message.outcome)
        is_over = message.lost
        if self.alone:
            self.measurement.note_alone(outcome)
            yield outcome
        elif self.measurement.is_suspect(message, outcome):
            self.measurement.suspect(trial)
            is_over |= outcome.state is State.IMPLAUSIBLE  # the clock may be changed for the trials after it, too
        else:
            yield outcome
        if is_over:
            self.workers.drop_worker()
        return is_over

    def _end(self, message: JobDone) -> Iterator[Outcome]:
        """Yield the outcomes of the trials that a worker has ended its job without."""
        may_be_leftovers = self.was_used and (message.starved or self.in_process)
        if message.fault and may_be_leftovers and not message.unavailable:
            self.workers.drop_worker()  # an earlier job's leftovers may be why; a new worker will show
            return
        fault = message.fault or "the worker gave no answer"
        self.workers.unavailable = fault if message.unavailable else ""
        state = State.SKIPPED if message.unavailable or message.of_family else State.CRASHED
        phase = OF_FAMILY if message.of_family else "inputs"
        yield from _all_failed(self.left.values(), state, fault, message.log, phase)

    def _time_out(self, status: Status) -> Iterator[Outcome]:
        """End a worker whose step exceeds its limit; yield the outcomes of the trials to blame.

        A trial that hangs on a device would only hang again, and costs its limit once.
        """
        self.workers.replace_worker()
        if not self._is_suspect(status, is_shared=self.in_process):
            limit_s = limit_of(status.phase, self.workers.limits)
            message = f"stopped after {limit_s:g} s while {PHASE_TEXT[status.phase]}"
            blamed = self._blame(status)
            yield from _all_failed(blamed, State.TIMED_OUT, message, "", status.phase.name.lower())

    def _bury(self, death: WorkerDiedError) -> Iterator[Outcome]:
        """Yield the outcomes of the trials to blame for the worker's death."""
        if self.measurement.is_forgiven(death):
            if death.status.index in self.left:
                self.measurement.suspect(self.left[death.status.index])
        elif not self._is_suspect(death.status, is_shared=True):
            message = f"{death.cause} while {PHASE_TEXT[death.status.phase]}"
            blamed = self._blame(death.status)
            yield from _all_failed(blamed, State.CRASHED, message, death.log, death.status.phase.name.lower())

    def _is_suspect(self, status: Status, is_shared: bool) -> bool:
        """Make the trial at which a worker was lost a suspect if others had used its process; return whether it is.

        Where variants run in the process itself, building is running their own code, too; elsewhere it is compiling.
        """
        own_code = (Phase.CHECK, Phase.TIME, *([Phase.BUILD] if self.in_process else []))
        trial = self.left.get(status.index)
        if trial is None or self.alone or not (is_shared and status.has_company and status.phase in own_code):
            return False
        self.measurement.suspect(trial)
        return True

    def _blame(self, status: Status) -> Iterable[JobTrial]:
        """Return the trial at which the worker was lost, or all remaining ones if it was lost before the first.

        No trial is blamed if a worker that had run trials was lost outside any open one, perhaps through an earlier one
        (a corrupt heap, a thread), or if a variant wrote over the status page: a new worker will show.
        """
        if status.index in self.left:
            return (self.left[status.index],)
        erased = status.phase not in (Phase.START, Phase.INPUTS) and len(self.left) > 1
        return () if (self.worked and not self.alone) or erased else self.left.values()


def limit_of(phase: Phase, limits: LimitsConfig) -> float:
    """Return for how many seconds a worker may be in a phase."""
    if phase is Phase.BUILD:
        return limits.build_s
    return limits.check_s if phase in (Phase.CHECK, Phase.TIME) else limits.trial_s


def is_from_outside(error: Exception) -> bool:
    """Return whether a worker was ended by a signal that seldom comes from the code it ran."""
    return isinstance(error, WorkerDiedError) and error.cause in FROM_OUTSIDE


def _all_failed(trials: Iterable[JobTrial], state: State, message: str, log: str, phase: str) -> Iterator[Outcome]:
    for trial in trials:
        yield Outcome(trial.identity, state, message, log, phase, started_at=time.time())
