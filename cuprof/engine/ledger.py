"""Keep the outcomes of a sweep's trials: store them, report them, and sum them up at the end."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from cuprof.core.project import Project
from cuprof.core.records import ENERGY_UNAVAILABLE, FAILED, OF_FAMILY, Outcome, State, Trial
from cuprof.engine.fleet import Fleet
from cuprof.engine.observer import Observer
from cuprof.engine.opened import Replanner
from cuprof.engine.planning import Prepared
from cuprof.engine.station import Station
from cuprof.results.trials import list_medians, list_tried
from cuprof.store import Store
from cuprof.store.outcomes import NOWHERE, Origin
from cuprof.store.stations import Claim
from cuprof.store.trials import StoredTrial
from cuprof.worker.messages import Job


class Ledger:
    """Store and report the outcomes of one sweep's trials; used only by the thread that writes and reports.

    Attributes:
        sweep_id: the sweep's key in the store; 0 until it has begun.
        trials: by identity; one whose variant opens files becomes a further one.
        concluded: identities of the finished trials, here or elsewhere.
        stored: the ones among them that were finished before this process took part.
        members: for a search, the trials that it has tried in this sweep.
        failed: trials that failed, except those expected to be wrong.
        surprises: trials expected to be wrong that were found right.
        faults: errors of the family's functions, in order.
    """

    def __init__(self, prepared: Prepared, project: Project, store: Store, fleet: Fleet, observer: Observer) -> None:
        self.prepared, self.store, self.fleet, self.observer = prepared, store, fleet, observer
        self.sweep_id, self.started_at = 0, 0.0
        self.trials = {trial.identity: trial for trial in prepared.plan.trials}
        self._places = {identity: place for place, identity in enumerate(self.trials)}
        self.concluded: set[str] = set()
        self.stored: set[str] = set()
        self.members: set[str] = set()
        self.failed: list[tuple[Trial, Outcome]] = []
        self.surprises: list[Trial] = []
        self.faults: dict[str, None] = {}
        self._replanner = Replanner(project, prepared.plan, prepared.devices)
        self._medians: dict[str, dict[str, float]] = {}
        self._granted: dict[str, Station] = {}
        self._has_company = False
        self._without_energy: set[tuple[str, str]] = set()

    def record(self, trial: Trial, outcome: Outcome, station: Station | None = None, job: str = "") -> bool:
        """Store an outcome and report it.

        An outcome of another job's trial is stored beside that job's. An outcome of a trial that another process has
        taken over is dropped, and False is returned.
        """
        origin = NOWHERE
        if station is not None:
            # A search goes by its latest look at a trial, which has the most samples.
            again = outcome.identity in self.concluded and not self.prepared.is_search
            if self.prepared.on_each_card:
                again |= station is not self.fleet.first and not self.fleet.first.is_lost
            elif station.number is not None:
                again |= self._granted.get(outcome.identity) is not station
            origin = Origin(station.number, station.find_device(trial.backend), job, again)
        run_id = self.store.record(self.sweep_id, outcome, origin)
        if origin.again:
            return False
        if run_id is None:
            self.observer.note(f"{trial.label} had been taken over by another process; its result here is not kept")
            return False
        self.concluded.add(outcome.identity)
        self._medians.pop(trial.identity, None)  # a search looks at a trial more than once
        if outcome.state is State.OK:
            self._medians[trial.identity] = {each.measure.value: each.summary.median_ns for each in outcome.timings}
        self._tell(trial, outcome)
        for timing in outcome.timings:
            reason = timing.details.get(ENERGY_UNAVAILABLE)
            if reason and (trial.backend, reason) not in self._without_energy:
                self._without_energy.add((trial.backend, reason))
                self.observer.note(f"{trial.backend}: energy is not measured: {reason}")
        return True

    def conclude(self, station: Station, job: str, outcome: Outcome) -> bool:
        """Record a worker's answer under the trial that was actually run, which may differ from the planned one."""
        trial = self.trials[outcome.identity]
        run = self._replanner.find(trial, outcome.opened) if self.prepared.remembers else trial
        if run.identity not in self.trials:
            self.store.exchange(self.sweep_id, trial.identity, run)
            self.trials[run.identity] = run
            if trial.identity in self._granted:
                self._granted[run.identity] = self._granted[trial.identity]
        kept = self.record(run, replace(outcome, identity=run.identity), station, job)
        if kept:
            self.concluded.add(trial.identity)  # it need not run any more, either
        return kept

    def recall(self) -> None:
        """Load the trials that a search tried in this sweep before it was interrupted."""
        with self.store.snapshot() as connection:
            self.members = list_tried(connection, self.sweep_id)

    def enlist(self, job: Job) -> None:
        """Make those of a job's trials members of the sweep that are not yet."""
        new = [trial.identity for trial in job.trials if trial.identity not in self.members]
        self.store.enlist(self.sweep_id, [self.trials[identity] for identity in new], first=len(self.members))
        self.members.update(new)

    def withdraw(self, identities: Sequence[str]) -> None:
        """Take members out of the sweep that were never run in it."""
        if identities:
            self.store.withdraw(self.sweep_id, identities)
        self.members.difference_update(identities)

    def take_stored(self, trials: Iterable[Trial], known: Mapping[str, StoredTrial]) -> None:
        """Count stored outcomes as the outcomes of these trials."""
        for trial in trials:
            self._judge(trial, known[trial.identity].state, known[trial.identity].message)
            self.stored.add(trial.identity)
        self.concluded |= self.stored

    def take_over(self, before: Ledger) -> None:
        """Take over the same sweep's part in another database; other processes' trials there are not our concern."""
        self.failed, self.surprises, self.faults = before.failed, before.surprises, before.faults
        done = set(before.concluded)
        if before._has_company:
            left = self.trials.keys() - done - before._granted.keys()
            if left:
                self.faults[f"{len(left)} trials are left to the next sweep that reaches the database"] = None
            done |= left
        self.observer.done_elsewhere(len(before.stored))  # it has counted the others
        self.concluded |= done

    def claim(self, station: Station, identities: Sequence[str]) -> Claim:
        """Claim trials for a station, and take note of those that other processes have done."""
        assert station.number is not None
        found = self.store.claim(self.sweep_id, station.number, {each: self._places[each] for each in identities})
        self._granted |= dict.fromkeys(found.granted, station)
        self._has_company |= found.stations > len(self.fleet.stations)
        elsewhere = found.done.keys() - self.concluded
        for identity in elsewhere:
            self._judge(self.trials[identity], *found.done[identity])
        if elsewhere:
            self.concluded |= elsewhere
            self.observer.done_elsewhere(len(elsewhere))
        return found

    def skip(self, trials: Sequence[Trial], reused: Container[str]) -> None:
        """Record that trials cannot run here, unless the sweep reuses such an outcome already; report all of them."""
        for trial in trials:
            outcome = Outcome(trial.identity, State.SKIPPED, str(trial.unavailable), started_at=time.time())
            (self._tell if trial.identity in reused else self.record)(trial, outcome)

    def confirm(self, trials: Sequence[Trial]) -> None:
        """Check stored times against the measured ones, after ending every process that a variant may have started."""
        timed = [trial for trial in trials if trial.identity in self._medians]
        if all(trial.kind == "kernel" for trial in timed):
            return
        for station in self.fleet.stations:
            station.runner.replace_worker()
        with self.store.snapshot() as connection:
            stored = list_medians(connection, self.sweep_id)
        for trial in timed:
            if stored.get(trial.identity, {}) != self._medians[trial.identity]:
                message = "its stored times were changed during the sweep"
                self.record(trial, Outcome(trial.identity, State.IMPLAUSIBLE, message, started_at=time.time()))

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        self._judge(trial, outcome.state, outcome.message)
        if outcome.phase == OF_FAMILY:
            self.faults[outcome.message] = None
        self.observer.trial_finished(trial, outcome)

    def _judge(self, trial: Trial, state: State, message: str) -> None:
        """Keep only what the sweep's end needs of a trial: there may be many trials, with many samples each."""
        expected_wrong = trial.expected == "wrong"
        if expected_wrong and state is State.OK:
            self.surprises.append(trial)
        elif state in FAILED and not (expected_wrong and state is State.WRONG_RESULT):
            self.failed.append((trial, Outcome(trial.identity, state, message)))
