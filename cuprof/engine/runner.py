"""Drive workers through jobs, so that a trial that crashes or hangs affects no other trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from cuprof.backends.registry import get_spec
from cuprof.config.model import LimitsConfig
from cuprof.core.records import OF_FAMILY, Outcome, State
from cuprof.engine.witness import Witness
from cuprof.engine.worker_process import WorkerDiedError, WorkerProcess, open_ahead
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Executed, Finished, Job, JobDone, JobTrial, Ready, WorkerSettings
from cuprof.worker.status_page import PHASE_TEXT, Phase, Status

MOST_IDLE_TURNS = 2
"""After this many turns in a row without an answer, run each remaining trial in a worker of its own."""

Watch = Callable[[JobTrial, Phase], None]


def nobody(trial: JobTrial, phase: Phase) -> None:
    """Watch nothing."""


FROM_OUTSIDE = ("SIGKILL", "SIGTERM")
"""Signals from people, batch systems and a kernel short of memory; the code in a process seldom sends itself these."""
MOST_KILLS = 3
"""Allow this many such kills within a job before blaming the trial that was running."""


class StoppedError(Exception):
    """Report that another thread stopped the runner while it worked."""


class JobRunner:
    """Run jobs on one worker at a time, replacing it whenever it is lost; use as a context manager.

    Args:
        settings: which devices the workers open.
        limits: how long one step of a trial may take.
        watch: called with the current trial and phase at every change.
        sandbox: the workers' sandbox; None for the user's own code.

    Attributes:
        lost: why the last job's device could not be opened; empty if it could.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        limits: LimitsConfig,
        watch: Watch = nobody,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.settings, self.limits, self.watch, self.sandbox = settings, limits, watch, sandbox
        self._lost_building = False
        self._clock_is_sound = False
        self._suspects: list[JobTrial] = []
        self._put_off: set[str] = set()
        self._worker: WorkerProcess | None = None
        self._worked = self._stopped = False
        self._kills = 0
        self.lost = ""

    def __enter__(self) -> JobRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._worker is not None and kind is not None:
            self._worker.kill()
        self._drop()

    @property
    def worker(self) -> WorkerProcess:
        """Return the worker, starting one where there is none."""
        if self._stopped:
            raise StoppedError
        if self._worker is None:
            self._worker = WorkerProcess(self.settings, self.sandbox)
        return self._worker

    def run(self, job: Job, judge: Callable[[Outcome], Outcome] = lambda outcome: outcome) -> Iterator[Outcome]:
        """Yield every trial's outcome as it comes.

        A trial in which the worker dies or hangs gets its outcome here; a new worker repeats the trials after it and
        those sampled beside it. If other trials ran in the same process, one of them may have left a thread or a
        corrupt heap behind. A trial whose failure this could explain is a suspect (`_is_doubtful`): it runs once more
        in a worker of its own, before any others, and that outcome counts. The same goes for an implausible time, since
        another variant may have changed the clock. Trials that the worker defers, still being built, get no outcome;
        see `Job.least_built`.

        Args:
            judge: marks outcomes with implausible times. If one is still implausible in a worker of its own, the job's
                other implausible trials are not repeated.
        """
        if job.isolated:
            self._drop()
        left = list(job.trials)
        self._lost_building = False
        self._suspects = []
        self._clock_is_sound = False
        self._put_off = set()
        self._kills, self.lost = 0, ""
        idle_turns = 0
        while left:
            alone = bool(self._suspects)
            if alone:
                self._drop()
            given = (self._suspects.pop(0),) if alone else tuple(left)
            ahead = get_spec(job.backend).builds_ahead and not self._lost_building
            current, before = replace(job, trials=given, build_ahead=ahead), len(left)
            for outcome in self._run_once(current, alone, judge):
                left = [trial for trial in left if trial.identity != outcome.identity]
                yield outcome
            left = [trial for trial in left if trial.identity not in self._put_off]
            idle_turns = idle_turns + 1 if len(left) == before and not self._suspects else 0
            if idle_turns >= MOST_IDLE_TURNS:  # a trial that ends its worker may take care to avoid blame
                self._suspects = list(left)
            if alone:
                self._drop()
        if job.isolated:
            self._drop()

    def _run_once(self, job: Job, alone: bool, judge: Callable[[Outcome], Outcome]) -> Iterator[Outcome]:
        """Yield outcomes until the job is done or its worker is lost, except those of trials that become suspects.

        Args:
            alone: the job's single trial is the only one in its worker. It never becomes a suspect again, so no trial
                runs more than twice because of others.
        """
        used = worked = self._worked and self._worker is not None
        self._worked = True
        left = dict(enumerate(job.trials))
        witness = Witness() if get_spec(job.backend).is_host and job.methods else None
        sent = time.monotonic()
        try:
            self.worker.send(job)
            seen: Status | None = None
            for message in self.worker.messages():
                if self._stopped:
                    raise StoppedError
                if isinstance(message, Ready | Executed) and witness:
                    self.worker.send(witness.answer(message))
                elif isinstance(message, Finished):
                    trial = self._take_answered(left, message)
                    worked = True
                    outcome = judge(witness.judge(message) if witness else message.outcome)
                    is_suspect, is_over = self._suspect(job, message, outcome, alone)
                    if is_suspect:
                        self._suspects.append(trial)
                    else:
                        yield outcome
                    if is_over:
                        self._drop()
                        return
                elif isinstance(message, JobDone):
                    yield from self._end(job, left, message, used)
                    return
                status = self.worker.page.read()
                if seen is None or (status.index, status.phase) != (seen.index, seen.phase):
                    if 0 <= status.index < len(job.trials):
                        self.watch(job.trials[status.index], status.phase)
                    seen = status
                # An idle worker may have been so since long before the job was there: its device was others' turn.
                age_s = min(status.age_s, time.monotonic() - sent) if status.phase is Phase.IDLE else status.age_s
                if message is None and age_s > self._limit(status.phase):
                    yield from self._time_out(job, left, status, worked=worked, alone=alone)
                    return
        except WorkerDiedError as death:
            yield from self._bury(job, left, death, worked=worked, alone=alone)

    def _take_answered(self, left: dict[int, JobTrial], message: Finished) -> JobTrial:
        """Return the answered trial, and remove it from those left.

        Raises:
            WorkerDiedError: the answer matches no open trial; the worker is given up.
        """
        trial = left.get(message.index)
        if trial is None or trial.identity != message.outcome.identity:
            self.worker.kill()
            raise WorkerDiedError("an answer without a question", self.worker.page.read(), "")
        del left[message.index]
        return trial

    def _suspect(self, job: Job, message: Finished, outcome: Outcome, alone: bool) -> tuple[bool, bool]:
        """Return whether an answered trial is a suspect, and whether its worker does no more."""
        implausible = outcome.state is State.IMPLAUSIBLE
        if alone:
            self._clock_is_sound |= implausible
            return False, message.lost
        if implausible and message.has_company and not (message.lost or self._clock_is_sound):
            return True, True  # the clock may be changed for the trials after it, too
        return _is_doubtful_outcome(job, message), message.lost

    def _end(self, job: Job, left: Mapping[int, JobTrial], message: JobDone, used: bool) -> Iterator[Outcome]:
        """Yield what becomes of trials that a worker has ended its job without.

        Args:
            used: the worker had had jobs before.
        """
        if _may_put_off(job, left, message.put_off):
            self._put_off |= {trial.identity for trial in left.values()}
            return
        if message.fault and used and (message.starved or _shares_process(job)) and not message.unavailable:
            self._drop()  # an earlier job's leftovers may be why; a new worker will show
            return
        fault = message.fault or "the worker gave no answer"
        self.lost = fault if message.unavailable else ""
        state = State.SKIPPED if message.unavailable or message.of_family else State.CRASHED
        phase = OF_FAMILY if message.of_family else "inputs"
        yield from _all_failed(left.values(), state, fault, message.log, phase)

    def _time_out(
        self, job: Job, left: Mapping[int, JobTrial], status: Status, *, worked: bool, alone: bool
    ) -> Iterator[Outcome]:
        """End a worker whose step exceeds its limit; yield the outcomes of the trials to blame."""
        self.replace_worker()
        if not alone and _shares_process(job) and _is_doubtful(job, left, status):
            self._suspects.append(left[status.index])
            return
        blamed = self._blame(job, left, worked and not alone, status)
        message = f"stopped after {self._limit(status.phase):g} s while {PHASE_TEXT[status.phase]}"
        yield from _all_failed(blamed, State.TIMED_OUT, message, "", status.phase.name.lower())

    def _bury(
        self, job: Job, left: Mapping[int, JobTrial], death: WorkerDiedError, *, worked: bool, alone: bool
    ) -> Iterator[Outcome]:
        """Remove a worker that died; yield the outcomes of the trials to blame."""
        self._drop()
        killed = is_from_outside(death) and self._kills < MOST_KILLS
        self._kills += killed
        if killed or (not alone and _is_doubtful(job, left, death.status)):
            self._suspects += [left[death.status.index]] if death.status.index in left else []
            return
        blamed = self._blame(job, left, worked and not alone, death.status, died=True)
        message = f"{death.cause} while {PHASE_TEXT[death.status.phase]}"
        yield from _all_failed(blamed, State.CRASHED, message, death.log, death.status.phase.name.lower())

    def _blame(
        self, job: Job, left: Mapping[int, JobTrial], worked: bool, status: Status, *, died: bool = False
    ) -> Iterable[JobTrial]:
        """Return the trial at which the worker was lost, or all remaining ones if it was lost before the first.

        No trial is blamed if a new worker will find out: sources were building in parallel, even while inputs were
        made; or a worker that had run trials was lost outside any open trial, perhaps through an earlier one (a corrupt
        heap, a thread).
        """
        if job.build_ahead and (status.phase is Phase.BUILD or (died and status.phase is Phase.INPUTS)):
            self._lost_building = True
            return ()
        if status.index in left:
            return (left[status.index],)
        erased = status.phase not in (Phase.START, Phase.INPUTS) and len(left) > 1  # somebody wrote over the page
        return () if worked or erased else left.values()

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

    def retire_worker(self, backends: tuple[str, ...] = ()) -> None:
        """End the worker, if there is one, while others go on, since nothing is measured any more.

        Args:
            backends: see `open_ahead`.
        """
        if self._worker is not None:
            self._worker.retire(backends)
        else:
            open_ahead(self.settings, backends)
        self._worker = None

    def stop(self) -> None:
        """Make the thread that uses the runner raise a `StoppedError` soon."""
        self._stopped = True

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None


def is_from_outside(error: Exception) -> bool:
    """Return whether a worker was ended by a signal that seldom comes from the code it ran."""
    return isinstance(error, WorkerDiedError) and error.cause in FROM_OUTSIDE


def _may_put_off(job: Job, left: Mapping[int, JobTrial], put_off: tuple[int, ...]) -> bool:
    """Return whether a worker may end a job with these unanswered."""
    return bool(job.least_built and put_off) and {*put_off} == {*left}


def _shares_process(job: Job) -> bool:
    """Return whether the job's trials run their own code in the worker's process, one after another."""
    return get_spec(job.backend).runs_in_process


def _is_doubtful(job: Job, left: Mapping[int, JobTrial], status: Status) -> bool:
    """Return whether a worker was lost at an unanswered trial while that one's code ran in a process that others used.

    Where variants run in the process itself, building is running their own code, too; elsewhere it is compiling.
    """
    own_code = (Phase.BUILD, Phase.CHECK, Phase.TIME) if _shares_process(job) else (Phase.CHECK, Phase.TIME)
    return status.index in left and status.phase in own_code and status.has_company


def _is_doubtful_outcome(job: Job, finished: Finished) -> bool:
    """Return whether another variant's effects on the process may explain a variant's failure or wrong result.

    A launch refused for its own size needs no second try, but for lack of memory it does: others may be holding it.
    """
    outcome = finished.outcome
    failed = outcome.state in (State.LAUNCH_ERROR, State.WRONG_RESULT)
    own_code = failed and outcome.phase != Phase.INPUTS.name.lower()
    return finished.has_company and (finished.starved or (_shares_process(job) and own_code))


def _all_failed(trials: Iterable[JobTrial], state: State, message: str, log: str, phase: str) -> Iterator[Outcome]:
    for trial in trials:
        yield Outcome(trial.identity, state, message, log, phase, started_at=time.time())
