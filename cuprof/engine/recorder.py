"""Take up a sweep where stored trials leave it; write its results, report them, and sum them up at the end."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from cuprof.core.project import Project
from cuprof.core.records import ENERGY_UNAVAILABLE, FAILED, OF_FAMILY, Outcome, State, StoredTrial, Trial
from cuprof.core.text import count, list_first
from cuprof.engine.executor import Executor, Result
from cuprof.engine.observer import Observer
from cuprof.engine.opened import OpenedFiles
from cuprof.engine.planning import Prepared
from cuprof.results.earlier import compare_sessions
from cuprof.results.sweeps import list_ends
from cuprof.store.outcomes import NOWHERE, Origin
from cuprof.store.stations import Claim
from cuprof.store.store import Store, wait_for


class Recorder:
    """Write and report the results of one sweep; used only by the thread that runs the dispatcher.

    Args:
        before: the recorder of the same sweep in a database now out of reach. Trials known to be finished there are not
            repeated, nor those that other processes may be running.

    Attributes:
        sweep_id: the sweep's key in the store; 0 until it has begun.
        trials: by identity; one whose variant opens files becomes a further one.
        concluded: identities of the finished trials, here or elsewhere.
        stored: the ones among them that were finished before this process took part.
        members: the trials that are part of the sweep.
        failed: trials that failed, except those expected to be wrong.
        surprises: trials expected to be wrong that were found right.
        faults: errors of the family's functions, in order.
    """

    def __init__(
        self,
        prepared: Prepared,
        project: Project,
        store: Store,
        executors: Sequence[Executor],
        observer: Observer,
        before: Recorder | None = None,
    ) -> None:
        self.prepared, self.store, self.executors, self.observer = prepared, store, executors, observer
        self.project, self.before = project, before
        self.sweep_id, self.started_at = 0, 0.0
        self.trials = {trial.identity: trial for trial in prepared.plan.trials}
        self._planned = list(self.trials)
        self._places = {identity: place for place, identity in enumerate(self._planned)}
        self.concluded: set[str] = set()
        self.stored: set[str] = set()
        self.members: set[str] = set()
        self.failed: list[tuple[Trial, Outcome]] = []
        self.surprises: list[Trial] = []
        self.faults: dict[str, None] = {}
        self._opened = OpenedFiles(project, prepared.family)
        self._claimed: set[str] = set()
        self._elsewhere: set[str] = set()
        self._again: set[str] = set()
        """Those that are timed again to see whether stored times hold."""
        self._has_company = False
        self._device_keys: dict[tuple[Executor, str], int | None] = {}
        self._without_energy: set[tuple[str, str]] = set()

    def take_up(self) -> list[Trial]:
        """Enlist the planned trials, and report those that need no work; return those left to run."""
        prepared, known = self.prepared, self.prepared.stored(self.store)
        trials = prepared.plan.trials
        settled = [trial for trial in trials if prepared.is_settled(trial, known.get(trial.identity), self.sweep_id)]
        skipped = [  # for the reason that is stored
            trial
            for trial in trials
            if trial.unavailable
            and (stored := known.get(trial.identity))
            and (stored.state, stored.message) == (State.SKIPPED, str(trial.unavailable))
        ]
        done = {trial.identity for trial in settled}
        new = [trial for trial in trials if not trial.unavailable and trial.identity not in done]
        references = prepared.find_references(known, new, self.sweep_id) if settled else []
        self._again = {trial.identity for trial in references}
        settled = [trial for trial in settled if trial.identity not in self._again]
        reused = {trial.identity: known[trial.identity] for trial in (*settled, *skipped)}
        due = [trial for trial in trials if trial.identity not in reused and not trial.unavailable]
        before = {trial.identity: known[trial.identity] for trial in due if trial.identity in known}
        if not prepared.config.retry:
            skips = {identity: stored.message for identity, stored in before.items() if stored.state is State.SKIPPED}
            for executor in self.executors:
                executor.expect_skips(skips)
        self.enlist(trials, reused)
        self.observer.started(len(trials), {trial.identity for trial in settled})
        self._note_again(references, [*before.values()])
        for trial in settled:
            self._judge(trial, known[trial.identity].state, known[trial.identity].message)
            self.stored.add(trial.identity)
        self.concluded |= self.stored
        self.take_over()
        self._skip([trial for trial in trials if trial.unavailable and trial.identity not in self.concluded], reused)
        return [trial for trial in due if trial.identity not in self.concluded]

    def _note_again(self, references: Sequence[Trial], before: Sequence[StoredTrial]) -> None:
        """Say why stored trials are timed again; `before` has the stored results of the trials that are due."""
        notes = []
        if references:
            first = list_first([trial.label for trial in references], 3)
            notes.append((len(references), "", f", to see whether stored times still hold: {first}"))
        if self.prepared.config.retry == "noisy":
            noisy = sum(map(self.prepared.is_noisy, before))
            notes.append((noisy, f" wider than ±{100 * self.prepared.widest:.3g} %", ""))
        for number, which, why in notes:
            again = "is timed again" if number == 1 else "are timed again"
            self.observer.note(f"{count(number, 'stored trial')}{which} {again}{why}")

    def report_sessions(self) -> None:
        """Say whether stored times that the sweep takes over still hold, where some trials were timed again."""
        if not self._again:
            return
        with self.store.snapshot() as connection:
            found = compare_sessions(connection, self.sweep_id)
        for each in found:
            tried = f"{count(each.controls, 'trial')} timed again {'differ' if each.controls > 1 else 'differs'} {each}"
            marked = "they are marked, and get no speed-up against today's (retry=all measures everything together)"
            hold = f"still hold: {tried}" if each.agrees else f"do not hold today: {tried}; {marked}"
            self.observer.note(f"times of sweep {each.sweep_id} {hold}")

    def record(self, results: Sequence[tuple[Executor, Result]]) -> list[tuple[Executor, Result]]:
        """Store results in one transaction, then report them; their trials become members if they are not yet.

        A result is stored under the trial that was actually run, which may differ from the planned one. A result of a
        trial that another process has taken over is dropped.

        Returns:
            Those that the sweep goes by.
        """
        self.enlist([self.trials[result.outcome.identity] for _, result in results])
        rows = []
        for executor, result in results:
            ran, is_beside = self._find_ran(result.outcome), result.outcome.identity in result.batch.beside
            device_key = self._find_device_key(executor, ran.backend)
            origin = Origin(executor.number or None, device_key, result.batch.series, again=is_beside)
            rows.append((replace(result.outcome, identity=ran.identity), origin))
        kept = []
        for one, (outcome, origin), key in zip(results, rows, self.store.record_all(self.sweep_id, rows), strict=True):
            trial = self.trials[outcome.identity]
            if key is None:
                self.observer.note(f"{trial.label} had been taken over by another process; its result here is not kept")
            elif not origin.again:
                self.concluded |= {outcome.identity, one[1].outcome.identity}  # the planned one need not run either
                self._report(trial, outcome)
                kept.append(one)
        return kept

    def _find_device_key(self, executor: Executor, backend: str) -> int | None:
        if (executor, backend) not in self._device_keys:
            device = executor.find_device(backend)
            self._device_keys[executor, backend] = None if device is None else self.store.save_device(device)
        return self._device_keys[executor, backend]

    def _find_ran(self, outcome: Outcome) -> Trial:
        """Return the trial that was run, which takes the place of the planned one if its variant opens other files."""
        ran = trial = self.trials[outcome.identity]
        if not self.prepared.is_private:
            ran = self._opened.find_ran(trial, outcome.opened, self.prepared.plan, self.prepared.devices)
        if ran.identity not in self.trials:
            self.store.exchange(self.sweep_id, trial.identity, ran)
            self.trials[ran.identity] = ran
            if trial.identity in self._claimed:
                self._claimed.add(ran.identity)
        return ran

    def _report(self, trial: Trial, outcome: Outcome) -> None:
        self._judge(trial, outcome.state, outcome.message)
        if outcome.phase == OF_FAMILY:
            self.faults[outcome.message] = None
        self.observer.trial_finished(trial, outcome)
        for timing in outcome.timings:
            reason = timing.details.get(ENERGY_UNAVAILABLE)
            if reason and (trial.backend, reason) not in self._without_energy:
                self._without_energy.add((trial.backend, reason))
                self.observer.note(f"{trial.backend}: energy is not measured: {reason}")

    def enlist(self, trials: Sequence[Trial], reused: Mapping[str, StoredTrial] | None = None) -> None:
        """Make trials members of the sweep that are not yet.

        Args:
            reused: identity → the stored run that the sweep goes by.
        """
        new = [trial for trial in trials if trial.identity not in self.members]
        self.store.enlist(self.sweep_id, new, len(self.members), reused)
        self.members.update(trial.identity for trial in new)

    def take_over(self) -> None:
        """Take over the same sweep's part in another database; other processes' trials there are not our concern."""
        if (before := self.before) is None:
            return
        self.failed, self.surprises, self.faults = before.failed, before.surprises, before.faults
        done = set(before.concluded)
        if before._has_company:
            left = self.trials.keys() - done - before._claimed
            if left:
                self.faults[f"{len(left)} trials are left to the next sweep that reaches the database"] = None
            done |= left
        self.observer.done_elsewhere(len(before.stored))  # it has counted the others
        self.concluded |= done

    def claim(self, executor: Executor, identities: Sequence[str]) -> Claim:
        """Claim trials for an executor."""
        places = {identity: self._places[identity] for identity in identities}
        found = self.store.claim(self.sweep_id, executor.number, places)
        self._claimed |= found.granted
        self._has_company |= found.stations > len(self.executors)
        return found

    def find_free(self, executor: Executor, identities: Sequence[str]) -> set[str]:
        """Return those of some trials that the executor may claim."""
        return self.store.find_free(self.sweep_id, executor.number, identities)

    def list_left(self, executor: Executor) -> tuple[set[str], set[str]] | None:
        """Return the open trials that the executor may claim, and those that others hold; count the others' work.

        None says that others hold all of them.
        """
        if (left := self.store.list_left(self.sweep_id, executor.number)) is None:
            return None
        free, held = ({self._planned[place] for place in places} for places in left)
        done = self._places.keys() - free - held - self.concluded
        self._elsewhere |= done
        self.concluded |= done
        self.observer.done_elsewhere(len(done))
        return free, held

    def judge_others(self) -> None:
        """Take note of the failures that other processes have met."""

        def read() -> list[tuple[int, State, str]]:
            with self.store.snapshot() as connection:
                return list_ends(connection, self.sweep_id)

        for place, state, message in wait_for(read) if self._elsewhere else ():
            if (identity := self._planned[place]) in self._elsewhere:
                self._judge(self.trials[identity], state, message)

    def _skip(self, trials: Sequence[Trial], reused: Container[str]) -> None:
        """Record that trials cannot run here, unless the sweep reuses such an outcome already; report all of them."""
        for trial in trials:
            outcome = Outcome(trial.identity, State.SKIPPED, str(trial.unavailable), started_at=time.time())
            if trial.identity not in reused:
                self.store.record(self.sweep_id, outcome, NOWHERE)
            self._report(trial, outcome)
            self.concluded.add(trial.identity)

    def _judge(self, trial: Trial, state: State, message: str) -> None:
        """Keep only what the sweep's end needs of a trial: there may be many trials, with many samples each."""
        expected_wrong = trial.expected == "wrong"
        if expected_wrong and state is State.OK:
            self.surprises.append(trial)
        elif state in FAILED and not (expected_wrong and state is State.WRONG_RESULT):
            self.failed.append((trial, Outcome(trial.identity, state, message)))
