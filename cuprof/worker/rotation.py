"""A few trials that share the device: checked one by one, timed side by side in rounds, and checked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from cuprof.backends.contract import POISON_BYTE, SECOND_POISON_BYTE, Backend, Draw, Runnable, Session
from cuprof.backends.device_state import StateMonitor
from cuprof.backends.registry import is_host
from cuprof.core.errors import BuildError
from cuprof.core.records import DOUBT, Measure, State
from cuprof.families.sources import relocate
from cuprof.worker.energy import EnergyMeter
from cuprof.worker.executions import Executions, Results
from cuprof.worker.messages import Finished, Job
from cuprof.worker.method import version
from cuprof.worker.opened import recorded
from cuprof.worker.problem import Problem
from cuprof.worker.protection import LATE, LATE_LOOKS, Protection
from cuprof.worker.sampler import Sampler, Subject
from cuprof.worker.status_page import Phase, StatusPage
from cuprof.worker.stopping import Race
from cuprof.worker.trial import Trial

IDLE_NS = 100_000_000
"""Bring a device back up to its clocks before sampling if it has rested for longer than this."""
ENOUGH_COMPARED = 1
"""After this many right timed executions, skip the final check. The first of them ran on inputs that differ from the
check's."""

Step = Callable[[Sequence[Trial]], Iterable[Trial]]
"""A step runs some trials side by side and yields each as soon as it is done."""


class Rotations:
    """Check and time the trials of one job on one session.

    Args:
        page: says what the process does.

    Attributes:
        current: index of the trial last executed or reported; -1 before the first.
        apart: of the trials last run, those to start again, each by itself. They change settings of the device, or an
            unknown one among them has damaged the shared arrays.
    """

    def __init__(self, problem: Problem, job: Job, session: Session[Runnable], page: StatusPage) -> None:
        self.backend: Backend[Runnable] = session.backend
        self.problem, self.job, self.session = problem, job, session
        facts = self.backend.facts()
        self.page, self.monitor = page, StateMonitor.find(facts.uuid)
        self.protection = Protection(session, problem, on_host=is_host(facts))
        self.results = Results(session, problem)
        self.energy = EnergyMeter(session, self.monitor, job.measure)
        self.current, self.apart = -1, list[Trial]()
        self._executions: dict[int, Executions] = {}
        self._rng = np.random.default_rng()

    def run(self, trials: Sequence[Trial]) -> Iterator[Finished]:
        """Yield a `Finished` for each trial that can be answered; go no further after one that is lost."""
        self.apart = []
        right: list[Trial] = []
        for trial in trials:
            needs_own = trial.changes_settings
            finished = self._check(trial)
            if trial.check is not None and not self._has_rested:
                self._note_work()  # a check is too short to bring the clocks up, and keeps them up
            finished = self._put_back(trial) or finished
            if finished is None:
                (right if trial.changes_settings == needs_own else self.apart).append(trial)
                continue
            yield finished
            if finished.outcome.state is not State.WRONG_RESULT:  # after that one, the check itself has put it right
                self.protection.mend_damage()  # done before it raised, and not to be laid at the next one's door
        measures = [*self.job.methods]
        yield from self._time(right, measures) if measures else map(self._recheck, right)

    def _check(self, trial: Trial) -> Finished | None:
        """Build and check the trial; return how it failed, or None."""
        if not trial.begun:
            trial.begun = True
            self.page.begin()
        failed = trial.attempt(self.page, Phase.BUILD, self._prepare)
        failed = failed or trial.attempt(self.page, Phase.CHECK, self._run_check)
        if failed:
            return failed
        if trial.check and not trial.check.passed:
            return trial.finish(State.WRONG_RESULT, trial.check.message, phase="check")
        return trial.attempt(self.page, Phase.CHECK, self._expect)

    def _prepare(self, trial: Trial) -> None:
        """Build the trial and bind it to the session's arrays; from then on its own code may run."""
        variant, asked = trial.variant, trial.asked
        try:
            with recorded(trial.opened) if trial.program is None else nullcontext():
                trial.runnable = self.session.prepare(
                    variant, self.job.problem, asked.tunables, trial.program, asked.source_text
                )
        except BuildError as error:
            where = variant.source, self.problem.family.folder
            raise BuildError(relocate(str(error), *where), relocate(error.log, *where)) from error

    def _run_check(self, trial: Trial) -> None:
        """Run the trial on poisoned arrays and compare with the reference; damage that it does is put right."""
        problem = self.problem
        trial.tolerances = trial.tolerances or [problem.hold(trial.variant, each) for each in problem.standards]
        byte = SECOND_POISON_BYTE if trial.check else POISON_BYTE
        if self.session.stocked:
            self.session.execute(trial.bound, Draw(0, byte))
        else:
            self.session.poison(trial.bound, byte)
            self.session.run(trial.bound)
        check = self.results.check(trial)
        trial.check = check if check.passed else replace(check, message=check.message + self._find_lateness(trial))
        self.protection.blame_for_damage(trial)

    def _expect(self, trial: Trial) -> None:
        self._executions[trial.index] = Executions(trial, self.results, self.protection)

    def _find_lateness(self, trial: Trial) -> str:
        """Return the message for a call that is right only after a full wait, or an empty string."""
        if trial.runnable is None or not trial.calls_host:
            return ""
        self.session.restore_inputs()
        self.session.poison(trial.runnable, SECOND_POISON_BYTE)
        self.session.run(trial.runnable)
        if self.results.check(trial).passed:  # wrong now and then, and not too late
            return ""
        for _ in range(LATE_LOOKS):  # on a busy host a thread is later than others
            self.session.wait()
            if self.results.check(trial).passed:
                return LATE
        return ""

    def _recheck(self, trial: Trial, compared: int = 0) -> Finished:
        """Check once more, after any timing: a variant that is right only the first time is wrong.

        Args:
            compared: executions since the check that were right.
        """
        if compared < ENOUGH_COMPARED and (failed := trial.attempt(self.page, Phase.CHECK, self._run_check)):
            return failed
        if trial.check is not None and not trial.check.passed:
            when = "before timing, wrong after it" if trial.timings else "at first, wrong the second time"
            return trial.finish(State.WRONG_RESULT, f"right {when}: {trial.check.message}", phase="recheck")
        return trial.finish(State.OK)

    def _put_back(self, trial: Trial) -> Finished | None:
        """Undo the trial's changes; return its answer if that fails."""
        return trial.attempt(self.page, Phase.CHECK, self.protection.after_trial)

    def _time(self, trials: Sequence[Trial], measures: Sequence[Measure]) -> Iterator[Finished]:
        """Take each measure of all trials side by side, and answer each trial after its last one."""
        steps: list[Step] = [partial(self._sample, measure) for measure in measures]
        if self.job.measure.energy and "energy" not in self.backend.spec.unheeded:
            steps[1:1] = [partial(self._meter, measures[0]), *([iter] if len(measures) == 1 else [])]
        going = {trial.index: trial for trial in trials}
        for number, step in enumerate(steps, 1):
            done: set[int] = set()
            while left := [trial for trial in going.values() if trial.index not in done]:
                try:
                    for trial in step(left):
                        done.add(trial.index)
                        if number < len(steps):
                            continue
                        self._attend(trial.index)
                        damage = self.protection.find_damage() if trial.calls_host else ""  # its inputs are rewritten
                        if not damage:
                            finished = self._examine(trial)
                            finished = self._put_back(trial) or finished
                            damage = "" if finished.lost else self.protection.find_damage()
                        if damage:
                            yield from self._find_culprit(list(going.values()), damage)
                            return
                        is_wrong = finished.outcome.state is State.WRONG_RESULT
                        if is_wrong and len(trials) > 1 and not trial.calls_host:  # another kernel may be to blame
                            self.apart.append(going.pop(trial.index))
                            continue
                        del going[trial.index]
                        yield finished
                except Exception as error:  # whatever a variant raises costs its own trial alone
                    yield going.pop(self.current).fail(Phase.TIME, error)
                    if self.protection.mend_damage():
                        self.apart += going.values()
                        return

    def _sample(self, measure: Measure, trials: Sequence[Trial]) -> Iterator[Trial]:
        """Yield each trial once its timing is known; it counts, whatever happens to its neighbours."""
        by_index = {trial.index: trial for trial in trials}
        self.current = -1
        executions = self._executions if self.session.stocked else {}
        subjects = [
            Subject(trial.index, trial.bound, executions.get(trial.index), once=self.protection.restores(trial))
            for trial in trials
        ]
        own = {"version": version(self.backend.spec.name), "correction_ns": self.backend.correction_ns(measure)}
        for index, timing in self._sampler(measure).sample(subjects, measure):
            self._note_work()
            self.current = index
            by_index[index].timings[measure] = replace(timing, details={**own, **timing.details})
            yield by_index[index]

    def _sampler(self, measure: Measure) -> Sampler:
        config, method = self.job.measure, self.job.methods[measure]
        return Sampler(
            session=self.session,
            config=config,
            method=method,
            rng=self._rng,
            attend=self._attend,
            settle_ns=config.settle_seconds * 1e9 if self._has_rested else 0.0,
            monitor=self.monitor,
            race=self.problem.races.setdefault(method, Race()) if config.race else None,
        )

    def _meter(self, measure: Measure, trials: Sequence[Trial]) -> Iterator[Trial]:
        """Yield each trial once its energy is recorded beside its timing.

        No other work comes between two of them, so one step of the counter ends one and begins the next.
        """
        for trial in trials:
            attend, restores = partial(self._attend, trial.index), self.protection.restores(trial)
            timing = trial.timings[measure]
            trial.timings[measure] = self.energy.add(timing, trial.bound, attend, restores=restores)
            self._note_work()
            yield trial

    def _examine(self, trial: Trial) -> Finished:
        """Answer a timed trial by the comparison of its timed executions."""
        executions = self._executions[trial.index]
        tally = executions.examine()
        trial.timings = timings = {
            measure: replace(timing, details={**timing.details, "compared": tally.compared})
            for measure, timing in trial.timings.items()
        }
        if tally.wrong:
            message = f"wrong in {tally.wrong} of {tally.compared} executions that were compared"
            message += f": {executions.first_wrong}" if executions.first_wrong else ""
            return trial.reject(State.WRONG_RESULT, message + self._find_lateness(trial))
        if skipping := executions.find_skipping():
            return trial.reject(State.WRONG_RESULT, skipping)
        doubts = (str(timing.details.get(DOUBT) or "") for timing in timings.values())
        if doubt := next(filter(None, doubts), ""):
            return trial.finish(State.IMPLAUSIBLE, doubt, phase="time")
        return self._recheck(trial, tally.compared)

    def _find_culprit(self, trials: Sequence[Trial], damage: str) -> Iterator[Finished]:
        """Answer the one trial that can have done the damage; of several, leave each to a rotation of its own."""
        self.session.restore_inputs()
        if len(trials) > 1:
            self.apart += trials
            return
        message = f"{damage} while it is timed"
        self.protection.fail_check(trials[0], message)
        yield trials[0].reject(State.WRONG_RESULT, message)

    def _attend(self, index: int) -> None:
        """Say that a trial is going to be executed."""
        self.current = index
        self.page.enter(index, Phase.TIME)

    def _note_work(self) -> None:
        """Note that the device has worked until now, and has its clocks."""
        self.backend.busy_until_ns = time.monotonic_ns()

    @property
    def _has_rested(self) -> bool:
        return time.monotonic_ns() - self.backend.busy_until_ns > IDLE_NS
