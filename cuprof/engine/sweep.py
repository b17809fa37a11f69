"""One sweep from configuration to stored rows."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread

from cuprof.backends.registry import is_host
from cuprof.config.model import SweepConfig
from cuprof.engine.calibrator import Calibrator
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.enrolment import make_stations
from cuprof.engine.feed import EachFeed, Feed, PlannedFeed, find_references, list_jobs
from cuprof.engine.fleet import Fleet, open_fleet
from cuprof.engine.host_load import describe_load
from cuprof.engine.objective import PROFILER, Counting
from cuprof.engine.observer import Observer
from cuprof.engine.opened import OpenedFiles
from cuprof.engine.planning import Prepared, prepare
from cuprof.engine.presence import Presence
from cuprof.engine.provenance import git_state, host_name, software_versions, typed_command
from cuprof.engine.spool import hand_in, open_spool
from cuprof.engine.station import Station
from cuprof.errors import UnreachableStoreError
from cuprof.interrupts import shielded
from cuprof.plan import plan as make_plan
from cuprof.point import Point
from cuprof.project import Project
from cuprof.reading.earlier import EarlierRun, list_earlier
from cuprof.reading.trials import list_medians
from cuprof.records import (
    ENERGY_UNAVAILABLE,
    FAILED,
    OF_FAMILY,
    Measure,
    Outcome,
    State,
    SweepFacts,
    Trial,
)
from cuprof.store import Store
from cuprof.store.connection import database_file, parse_url
from cuprof.store.network import describe_network
from cuprof.store.outcomes import NOWHERE, Origin
from cuprof.store.stations import Claim
from cuprof.store.trials import StoredTrial
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.status_page import Phase

OPENINGS, REOPEN_S = 3, 0.5


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    Args:
        failed: the trials that failed, those expected to be wrong left out.
        surprises: trials expected to be wrong that were found right.
        faults: what functions of the family raised, for which trials were skipped.
        url: the database that the sweep is stored in.
    """

    sweep_id: int
    failed: tuple[tuple[Trial, Outcome], ...]
    surprises: tuple[Trial, ...] = ()
    faults: tuple[str, ...] = ()
    url: str = ""

    @property
    def exit_code(self) -> int:
        """Return 1 where a trial, the family or an expectation failed, else 0."""
        return 1 if self.failed or self.surprises or self.faults else 0


def run_sweep(
    config: SweepConfig, project: Project, observer: Observer, meanwhile: Callable[[], object] | None = None
) -> SweepResult:
    """Check, time and store every trial that is not stored yet.

    Each trial is durable before the next is reported. On an interrupt the sweep is marked and can be continued by the
    same command. While the server of the database cannot be reached, results go to a file, and the next sweep that
    reaches it hands them in.

    Args:
        meanwhile: run in a thread while the worker measures a device; not where the host itself is timed, since it
            would take part in the times.

    Raises:
        UsageError: the request cannot be carried out; nothing has been stored.
        StoreError: the database cannot be used.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    url = store_url(config, project)
    before: Sweep | None = None
    with ExitStack() as stack:
        while True:
            with open_stations(config) as fleet:
                prepared = prepare(config, project, fleet.stations)
                place = database_file(parse_url(url))
                is_first = place is not None and not place.exists()
                sweep: Sweep | None = None
                try:
                    with _open_store(url) as store:
                        if place is None:
                            for text in hand_in(store, project):
                                observer.note(text)
                        if is_first:
                            observer.note(f"results are stored in {place}")
                        sweep = Sweep(prepared, project, store, fleet, observer, meanwhile, before=before)
                        return sweep.run()
                except UnreachableStoreError as error:
                    observer.note(f"{error}; results are kept in a file until the next sweep that reaches it")
            before, url = sweep, stack.enter_context(open_spool(project, url))


def _open_store(url: str) -> Store:
    """Open the database; a server is asked several times, since one connection may be lost for any reason."""
    for chance in reversed(range(OPENINGS)):
        try:
            return Store.open(url)
        except UnreachableStoreError:
            if not chance:
                raise
            time.sleep(REOPEN_S)
    raise AssertionError


def store_url(config: SweepConfig, project: Project) -> str:
    """Return the database that a configuration writes to."""
    return config.store.url or project.database_url


def open_stations(config: SweepConfig) -> AbstractContextManager[Fleet]:
    """Open a station for each GPU that is asked for; no worker is started yet."""
    return open_fleet(make_stations(config))


AskFor = Callable[[Station, Sequence[str]], Claim]
"""Claim trials for a station; see `Store.claim`."""
MakeFeed = Callable[[Prepared, Sequence[Trial], Fleet, AskFor | None], Feed]
"""Make the feed of the trials that are left to run."""


class Sweep:
    """One sweep under way: the store, the stations and the plan together.

    Args:
        make_feed: makes the feed of the trials that are left to run. By default they are run in the order of the plan,
            or a search chooses of them; of a search's trials those alone are members of the sweep that it tries.
        before: the same sweep in a database that can no longer be reached: what is known to be done there is not done
            again, nor what other processes may be doing.
    """

    def __init__(
        self,
        prepared: Prepared,
        project: Project,
        store: Store,
        fleet: Fleet,
        observer: Observer,
        meanwhile: Callable[[], object] | None = None,
        make_feed: MakeFeed | None = None,
        before: Sweep | None = None,
    ) -> None:
        self.prepared, self.project, self.store = prepared, project, store
        self.fleet, self.observer, self.meanwhile = fleet, observer, meanwhile
        self.is_search = bool(prepared.config.search.name)
        self.make_feed = make_feed or (self._search_feed if self.is_search else plan_feed)
        self.trials = {trial.identity: trial for trial in prepared.plan.trials}
        self._opened = ExitStack()
        self.calibrator = Calibrator(prepared, store, fleet, observer, self.trials)
        self.locks = DeviceLocks(partial(fleet.call, observer.note))
        self.failed: list[tuple[Trial, Outcome]] = []
        self.surprises: list[Trial] = []
        self.faults: dict[str, None] = {}
        self._replanned: dict[str, dict[tuple[Point, Point], Trial]] = {}
        self._medians: dict[str, dict[str, float]] = {}
        self._concluded: set[str] = set()
        self._granted: dict[str, Station] = {}
        self._has_company = False
        self.started_at = 0.0
        self.sweep_id = 0
        self.before = before if before is not None and before.sweep_id else None
        self._enlisted: set[str] = set()
        self._without_energy: set[tuple[str, str]] = set()

    def run(self) -> SweepResult:
        """Do what is left to do of the plan."""
        plan, store = self.prepared.plan, self.store
        known = {} if self.is_search else self.prepared.stored(store)
        facts, sweep_id = self._facts(), None
        try:
            with shielded():  # no sweep is begun whose number is not known
                sweep_id = self._begin(facts)
            self.sweep_id = sweep_id
            self.started_at = store.read_start(sweep_id)
            if not self.is_search:
                store.enlist(sweep_id, plan.trials)
            settled = [
                trial for trial in plan.trials if self.prepared.is_settled(trial, known.get(trial.identity), sweep_id)
            ]
            store.reuse(sweep_id, [known[trial.identity] for trial in settled])
            self.observer.started(len(plan.trials), len(settled))
            place = database_file(store.parsed_url)
            for text in (*plan.notes, *filter(None, [describe_network(place) if place else ""])):
                self.observer.note(text)
            for trial in settled:
                self._judge(trial, known[trial.identity].state, known[trial.identity].message)
            done = {trial.identity for trial in settled} | self._take_over()
            open_trials = [trial for trial in plan.trials if trial.identity not in done]
            if not self.is_search:
                self._skip(sweep_id, [trial for trial in open_trials if trial.unavailable], known)
            runnable = [trial for trial in open_trials if not trial.unavailable]
            if any(self._is_timed_on_host(trial) for trial in runnable):
                if busy := describe_load():
                    self.observer.note(busy)
            elif self.meanwhile:
                Thread(target=self.meanwhile, daemon=True).start()
            self._concluded |= done
            with Presence(store, self.fleet.stations):
                self._measure(sweep_id, runnable)
                self._confirm(sweep_id, runnable)
            store.finish_sweep(sweep_id, "interrupted" if self.before else "finished")
        except UnreachableStoreError:
            raise
        except BaseException:
            if sweep_id is not None:
                self.store.leave([one.number for one in self.fleet.stations if one.number is not None])
                store.finish_sweep(sweep_id, "interrupted")
            raise
        self.observer.finished(sweep_id)
        if self.is_search and len(self.failed) < len(self._enlisted):  # that some fail is part of searching
            return SweepResult(sweep_id, (), url=store.url)
        for trial in self.surprises:
            self.observer.note(f"{trial.label} is expected to be wrong and was found right")
        return SweepResult(sweep_id, tuple(self.failed), tuple(self.surprises), tuple(self.faults), store.url)

    def _take_over(self) -> set[str]:
        """Take over what is known of the sweep's part in another database; return the trials that are none of ours."""
        if self.before is None:
            return set()
        self.failed, self.surprises, self.faults = self.before.failed, self.before.surprises, self.before.faults
        done = self.before._concluded
        if self.before._has_company:
            left = self.trials.keys() - done - self.before._granted.keys()
            if left:
                self.faults[f"{len(left)} trials are left to the next sweep that reaches the database"] = None
            done = done | left
        self.observer.done_elsewhere(len(done))
        return done

    def _begin(self, facts: SweepFacts) -> int:
        if not self.prepared.is_shared:
            return self.store.begin_sweep(facts)
        stations = self.fleet.stations
        sweep_id, numbers = self.store.join_sweep(facts, [station.name for station in stations])
        for station, number in zip(stations, numbers, strict=True):
            station.number = number
        return sweep_id

    def _claim(self, sweep_id: int, station: Station, identities: Sequence[str]) -> Claim:
        """Claim trials for a station, and take note of those that other processes have done."""
        assert station.number is not None
        found = self.store.claim(sweep_id, station.number, identities)
        self._granted |= dict.fromkeys(found.granted, station)
        self._has_company |= found.stations > len(self.fleet.stations)
        elsewhere = found.done - self._concluded
        if elsewhere:
            self._concluded |= elsewhere
            trials = [self.trials[identity] for identity in elsewhere]
            known = self.prepared.stored(self.store, trials)
            for trial in trials:
                self._judge(trial, known[trial.identity].state, known[trial.identity].message)
            self.observer.done_elsewhere(len(elsewhere))
        return found

    def _skip(self, sweep_id: int, trials: Sequence[Trial], known: Mapping[str, StoredTrial]) -> None:
        skipped_before = []
        for trial in trials:
            outcome = Outcome(trial.identity, State.SKIPPED, str(trial.unavailable), started_at=time.time())
            earlier = known.get(trial.identity)
            if earlier is not None and (earlier.state, earlier.message) == (State.SKIPPED, outcome.message):
                skipped_before.append(earlier)
                self._tell(trial, outcome)
            else:
                self._record(sweep_id, trial, outcome)
        self.store.reuse(sweep_id, skipped_before)

    def _measure(self, sweep_id: int, trials: Sequence[Trial]) -> None:
        claim = partial(self._claim, sweep_id) if self.prepared.is_shared else None
        with self._opened:
            self._feed(sweep_id, self.make_feed(self.prepared, trials, self.fleet, claim))

    def _feed(self, sweep_id: int, feed: Feed) -> None:
        call = self.fleet.call

        def conclude(station: Station, job: str, outcome: Outcome) -> None:
            ran = self._with_opened(sweep_id, self.trials[outcome.identity], outcome)
            if self._record(sweep_id, *ran, station, job):
                feed.tell(station, outcome)

        def work(station: Station, job: Job) -> None:
            # A search holds its looks at a trial against each other, each in a job of its own.
            number = secrets.token_hex(8) if self.is_search else station.find_series(job.problem, job.backend)
            if self.is_search:
                call(self._enlist, sweep_id, job)
            with self._turn(station, job):
                if job.methods and job.backend not in station.calibrated:  # what it measures bounds the first time
                    self.calibrator.calibrate(sweep_id, station, job.backend)
                for outcome in station.runner.run(job, partial(self.calibrator.believe, station)):
                    if station.runner.lost and call(self._retire, station, feed, job):
                        return
                    call(conclude, station, number, outcome)

        for station in self.fleet.stations:
            station.runner.watch = partial(call, self._show, station)
        self.fleet.run(feed, work)

    def _confirm(self, sweep_id: int, trials: Sequence[Trial]) -> None:
        """Hold what is stored against what was measured, once nothing runs any more that a variant can have started."""
        if all(trial.kind == "kernel" for trial in trials if trial.identity in self._medians):
            return
        for station in self.fleet.stations:
            station.runner.replace_worker()
        with self.store.snapshot() as connection:
            stored = list_medians(connection, sweep_id)
        for trial in trials:
            if trial.identity in self._medians and stored.get(trial.identity, {}) != self._medians[trial.identity]:
                message = "what was stored of it was changed while its sweep went on"
                self._record(
                    sweep_id, trial, Outcome(trial.identity, State.IMPLAUSIBLE, message, started_at=time.time())
                )

    def _retire(self, station: Station, feed: Feed, job: Job) -> bool:
        """Give the work of a station whose device has failed to others; return False where there are none."""
        if not self.fleet.retire(station, feed, job):
            return False
        if station.number is not None:
            self.store.leave([station.number])
        self.observer.note(f"{station.name} has failed ({station.runner.lost}); its work is given to the others")
        return True

    def _search_feed(self, prepared: Prepared, trials: Sequence[Trial], fleet: Fleet, claim: AskFor | None) -> Feed:
        from cuprof.engine.search import SearchFeed  # NumPy and SciPy are for searches

        earlier = self._read_earlier(trials)
        self._enlisted = {run.identity for run in earlier if run.sweep_id == self.sweep_id}
        counting = self._count(trials) if prepared.config.search.counters else None
        return SearchFeed(prepared, trials, earlier, self.sweep_id, self.observer.note, counting)

    def _count(self, trials: Sequence[Trial]) -> Counting:
        """Return what reads the counters that the search's objective has."""
        from cuprof.profiling.registry import get_profiler

        config, names = self.prepared.config, self.prepared.config.search.counters
        ncu = replace(config.ncu, name="search", metrics=names, extra_metrics=(), set="", sections=())
        collector = get_profiler(PROFILER).open(replace(config, ncu=ncu), self.project)
        return Counting(names, trials, self._opened.enter_context(collector), self.store, self.sweep_id)

    def _read_earlier(self, trials: Sequence[Trial]) -> list[EarlierRun]:
        variants = {trial.variant for trial in trials}
        measure = Measure(self.prepared.config.measure.modes[0])
        with self.store.snapshot() as connection:
            return list_earlier(connection, self.prepared.family.name, measure, variants)

    def _enlist(self, sweep_id: int, job: Job) -> None:
        """Make those of a job's trials members of the sweep that are not yet."""
        new = [trial.identity for trial in job.trials if trial.identity not in self._enlisted]
        self.store.enlist(sweep_id, [self.trials[identity] for identity in new], first=len(self._enlisted))
        self._enlisted.update(new)

    def _show(self, station: Station, job: JobTrial, phase: Phase) -> None:
        trial = self.trials[job.identity]
        station.doing = f"{phase.name.lower()}: {trial.label}"
        self.observer.trial_started(trial, phase.name.lower())

    def _turn(self, station: Station, job: Job) -> AbstractContextManager[None]:
        """Return what keeps other cuprof processes off the job's device while it is timed on."""
        device = station.find_device(job.backend)
        return self.locks.hold(device) if job.methods and device is not None else nullcontext()

    def _is_timed_on_host(self, trial: Trial) -> bool:
        return (
            trial.device is not None
            and is_host(trial.backend, trial.device.details)
            and bool(self.prepared.methods[trial.backend])
        )

    def _with_opened(self, sweep_id: int, trial: Trial, outcome: Outcome) -> tuple[Trial, Outcome]:
        """Return the trial that was run: another one than was planned, where the variant opened files on its own."""
        if not self.prepared.remembers:
            return trial, outcome
        family, plan = self.prepared.family, self.prepared.plan
        folder = family.folder or self.project.root
        named = {str((folder / file).absolute()) for file in family.variant(trial.variant).files}
        if unforeseen := set(outcome.opened) - named:
            opened = OpenedFiles(self.project, family)
            opened.learn(trial.variant, unforeseen)
            opened.add_to(family)
            self._replanned.pop(trial.variant, None)
        elif trial.variant not in self._replanned:
            return trial, outcome
        if trial.variant not in self._replanned:
            given = plan.selection
            selection = replace(given, variants=(trial.variant,), optional=frozenset(given.tune))
            again = make_plan(family, selection, self.prepared.devices).trials
            self._replanned[trial.variant] = {(one.problem, one.tunables): one for one in again}
        run = self._replanned[trial.variant][trial.problem, trial.tunables]
        if run.identity not in self.trials:
            self.store.exchange(sweep_id, trial.identity, run)
            self.trials[run.identity] = run
            if trial.identity in self._granted:
                self._granted[run.identity] = self._granted[trial.identity]
        return run, replace(outcome, identity=run.identity)

    def _record(
        self, sweep_id: int, trial: Trial, outcome: Outcome, station: Station | None = None, job: str = ""
    ) -> bool:
        """Store an outcome, and tell it; one of another job's trial is stored beside that job's, and False returned."""
        origin = NOWHERE
        if station is not None:
            # A search goes by its latest look at a trial, which has the most samples.
            again = outcome.identity in self._concluded and not self.is_search
            if self.prepared.on_each_card:
                again |= station is not self.fleet.first and not self.fleet.first.is_lost
            elif station.number is not None:
                again |= self._granted.get(outcome.identity) is not station
            origin = Origin(station.number, station.find_device(trial.backend), job, again)
        run_id = self.store.record(sweep_id, outcome, origin)
        if origin.again:
            return False
        self._concluded.add(outcome.identity)
        if run_id is None:
            self.observer.note(
                f"{trial.label} had been taken over by another process; what came of it here is not kept"
            )
            self.observer.done_elsewhere(1)
            return True
        if outcome.state is State.OK:
            self._medians[trial.identity] = {each.measure.value: each.summary.median_ns for each in outcome.timings}
        self._tell(trial, outcome)
        for timing in outcome.timings:
            reason = timing.details.get(ENERGY_UNAVAILABLE)
            if reason and (trial.backend, reason) not in self._without_energy:
                self._without_energy.add((trial.backend, reason))
                self.observer.note(f"{trial.backend}: energy is not measured: {reason}")
        return True

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        self._judge(trial, outcome.state, outcome.message)
        if outcome.phase == OF_FAMILY:
            self.faults[outcome.message] = None
        self.observer.trial_finished(trial, outcome)

    def _judge(self, trial: Trial, state: State, message: str) -> None:
        """Keep what the end needs to know of a trial: a sweep may have many, and many samples each."""
        expected_wrong = trial.expected == "wrong"
        if expected_wrong and state is State.OK:
            self.surprises.append(trial)
        elif state in FAILED and not (expected_wrong and state is State.WRONG_RESULT):
            self.failed.append((trial, Outcome(trial.identity, state, message)))

    def _facts(self) -> SweepFacts:
        config, family = self.prepared.config, self.prepared.family
        return SweepFacts(
            name=config.experiment or family.name,
            experiment=config.experiment,
            family=family.name,
            baseline=config.baseline or family.get_baseline(),
            plan_hash=self.prepared.hash,
            command_line=config.command_line or typed_command(),
            configuration=dict(config.composed),
            host=host_name(),
            git=git_state(family.folder or self.project.root),
            software=software_versions(),
            started_at=self.before.started_at if self.before else 0.0,
            purpose=config.purpose or ("timing" if any(self.prepared.methods.values()) else "profiling"),
        )


def plan_feed(prepared: Prepared, trials: Sequence[Trial], fleet: Fleet, claim: AskFor | None) -> Feed:
    """Return the feed that runs trials in the order of the plan; of several stations see `PlannedFeed`."""
    seed = prepared.config.check.seed
    seed = secrets.randbits(63) if seed is None else seed
    count = len(fleet.stations)
    if prepared.on_each_card:
        return EachFeed(list_jobs(prepared, trials, seed), fleet.stations, fleet.first.is_host)
    if count > 1:
        # What takes longest does not come last: at the end the others would wait for it.
        weights = Counter[Point]()
        for trial in trials:
            weights[trial.problem] += trial.useful_bytes or 1
        trials = sorted(trials, key=lambda trial: -weights[trial.problem])
    jobs = list_jobs(prepared, trials, seed)
    return PlannedFeed(jobs, count, find_references(prepared), fleet.first.is_host, claim)
