"""Drive workers through jobs, so that a trial that crashes or hangs costs itself and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from cuprof.config.model import LimitsConfig
from cuprof.engine.worker_process import WorkerDiedError, WorkerProcess
from cuprof.records import Outcome, State
from cuprof.worker.messages import Finished, Job, JobDone, TrialJob, WorkerSettings
from cuprof.worker.status_page import NO_TRIAL, PHASE_TEXT, Phase, Status

Watch = Callable[[TrialJob, Phase], None]


class JobRunner:
    """Run jobs on one worker at a time, replacing it whenever it is lost; use as a context manager.

    Args:
        settings: which devices the workers open.
        limits: how long one step of a trial may take.
        watch: told what is being worked on, whenever it changes.
    """

    def __init__(self, settings: WorkerSettings, limits: LimitsConfig, watch: Watch) -> None:
        self.settings, self.limits, self.watch = settings, limits, watch
        self._lost_building = False
        self._worker: WorkerProcess | None = None
        self._worked = False

    def __enter__(self) -> JobRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._worker is not None and kind is not None:
            self._worker.kill()
        self._drop()

    @property
    def worker(self) -> WorkerProcess:
        """Return the worker, starting one where there is none."""
        if self._worker is None:
            self._worker = WorkerProcess(self.settings)
        return self._worker

    def run(self, job: Job) -> Iterator[Outcome]:
        """Yield every trial's outcome as it comes.

        A trial that the worker dies of or hangs in is answered here; the trials after it, and those that were sampled
        beside it, are done again by a new worker.
        """
        left = list(job.trials)
        self._lost_building = False
        while left:
            current = replace(job, trials=tuple(left), build_ahead=not self._lost_building)
            for outcome in self._run_once(current):
                left = [trial for trial in left if trial.identity != outcome.identity]
                yield outcome

    def _run_once(self, job: Job) -> Iterator[Outcome]:
        """Yield outcomes until the job is done or its worker is lost."""
        worked, self._worked = self._worked and self._worker is not None, True
        left = dict(enumerate(job.trials))
        sent = time.monotonic()
        try:
            self.worker.send(job)
            seen: Status | None = None
            for message in self.worker.messages():
                if isinstance(message, Finished):
                    worked = left.pop(message.index, None) is not None or worked
                    yield message.outcome
                    if message.lost:
                        self._drop()
                        return
                elif isinstance(message, JobDone):
                    fault = message.fault or "the worker gave no answer"
                    state = State.SKIPPED if message.unavailable else State.CRASHED
                    yield from _all_failed(left.values(), state, fault, message.log, "inputs")
                    return
                status = self.worker.page.read()
                if seen is None or (status.index, status.phase) != (seen.index, seen.phase):
                    if status.index != NO_TRIAL:
                        self.watch(job.trials[status.index], status.phase)
                    seen = status
                limit = self._limit(status.phase)
                # An idle worker may have been so since long before the job was there: its device was others' turn.
                age_s = min(status.age_s, time.monotonic() - sent) if status.phase is Phase.IDLE else status.age_s
                if message is None and age_s > limit:
                    self.replace_worker()
                    blamed = self._blame(job, left, worked, status)
                    message = f"stopped after {limit:g} s while {PHASE_TEXT[status.phase]}"
                    yield from _all_failed(blamed, State.TIMED_OUT, message, "", status.phase.name.lower())
                    return
        except WorkerDiedError as death:
            self._drop()
            blamed = self._blame(job, left, worked, death.status)
            message = f"{death.cause} while {PHASE_TEXT[death.status.phase]}"
            yield from _all_failed(blamed, State.CRASHED, message, death.log, death.status.phase.name.lower())

    def _blame(self, job: Job, left: Mapping[int, TrialJob], worked: bool, status: Status) -> Iterable[TrialJob]:
        """Return the trial at which the worker was lost, or all that are left where it was lost before the first.

        Nobody is blamed where a new worker will tell: sources were being built side by side, or a worker that has
        worked was lost outside of an unanswered trial, perhaps through an earlier one (a spoilt heap, a thread).
        """
        if status.phase is Phase.BUILD and job.build_ahead:
            self._lost_building = True
            return ()
        if status.index in left:
            return (left[status.index],)
        return () if worked else left.values()

    def _limit(self, phase: Phase) -> float:
        if phase is Phase.BUILD:
            return self.limits.build_s
        if phase in (Phase.CHECK, Phase.TIME):
            return self.limits.check_s
        return self.limits.trial_s

    def replace_worker(self) -> None:
        """End the worker at once; the next use starts a new one."""
        if self._worker is not None:
            self._worker.kill()
        self._drop()

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None


def _all_failed(trials: Iterable[TrialJob], state: State, message: str, log: str, phase: str) -> Iterator[Outcome]:
    for trial in trials:
        yield Outcome(trial.identity, state, message, log, phase, started_at=time.time())
