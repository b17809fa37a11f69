"""One sweep from configuration to stored rows."""

from __future__ import annotations

import importlib
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from cuprof.backends.registry import is_host
from cuprof.config.model import SweepConfig
from cuprof.core.errors import UnreachableStoreError
from cuprof.core.interrupts import shielded
from cuprof.core.project import Project
from cuprof.core.records import Outcome, SweepFacts, Trial
from cuprof.core.text import count, list_first
from cuprof.engine.calibrator import Calibrator
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.feed import Feed, plan_feed
from cuprof.engine.fleet import open_stations
from cuprof.engine.host_load import describe_load
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.engine.provenance import git_state, software_versions, typed_command
from cuprof.engine.runner import nobody
from cuprof.engine.station import Station
from cuprof.families import Family
from cuprof.results.earlier import count_outdated
from cuprof.results.sessions import compare_sessions
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.status_page import Phase

if TYPE_CHECKING:
    from cuprof.engine.ledger import Ledger
    from cuprof.store import Store, StoredTrial

OPENINGS, REOPEN_S = 3, 0.5
STORING = ("cuprof.engine.ledger", "cuprof.engine.presence", "cuprof.engine.spool", "cuprof.store.network")
"""Modules that use the database. Its library takes as long to import as a worker takes to describe its devices."""
SEARCHING = ("cuprof.engine.search", "cuprof.search.surrogate", "scipy.linalg", "scipy.optimize", "scipy.special")
"""Further modules for a search; SciPy is needed only after its first jobs."""


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Args:
        failed: trials that failed, except those expected to be wrong.
        surprises: trials expected to be wrong that were found right.
        faults: errors of the family's functions, because of which trials were skipped.
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
    config: SweepConfig,
    project: Project,
    observer: Observer,
    meanwhile: Callable[[], object] | None = None,
    family: Family | None = None,
) -> SweepResult:
    """Check, time and store every trial that is not stored yet.

    Each trial is durable before the next is reported. On an interrupt the sweep is marked, and the same command
    continues it. While the database's server cannot be reached, results go to a file, and the next sweep that reaches
    the server hands them in.

    Args:
        meanwhile: run in a thread during a worker's first job, or else while waiting for the database. It does not run
            if the host is timed, since it would disturb the times.
        family: the configuration's family, if already loaded.

    Raises:
        UsageError: the request cannot be carried out; nothing has been stored.
        StoreError: the database cannot be used.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    url = config.store.url or project.database_url
    before: Ledger | None = None
    names = (*STORING, *SEARCHING) if config.search.name else STORING
    Thread(target=import_ahead, args=names, daemon=True).start()
    with ExitStack() as stack:
        while True:
            with open_stations(config) as fleet:
                prepared = prepare(config, project, fleet.stations, family=family)
                from cuprof.engine.ledger import Ledger
                from cuprof.engine.spool import hand_in, open_spool
                from cuprof.store.connection import database_file, parse_url

                place = database_file(parse_url(url))
                is_first = place is not None and not place.exists()
                ledger: Ledger | None = None
                try:
                    with _open_store(url) as store:
                        if place is None:
                            for text in hand_in(store, project):
                                observer.note(text)
                        if is_first:
                            observer.note(f"results are stored in {place}")
                        ledger = Ledger(prepared, project, store, fleet, observer)
                        result = Sweep(ledger, project, meanwhile, before).run()
                        for station in fleet.stations:
                            station.runner.retire_worker(station.slow_to_open)
                        return result
                except UnreachableStoreError as error:
                    observer.note(f"{error}; results are kept in a file until the next sweep that reaches it")
            before = ledger if ledger is not None and ledger.sweep_id else None
            url = stack.enter_context(open_spool(project, url))


def import_ahead(*names: str) -> None:
    """Import modules; in a thread, while something else is waited for."""
    for name in names:
        importlib.import_module(name)


def _open_store(url: str) -> Store:
    """Open the database; a server is asked several times, since one connection may be lost for any reason."""
    from cuprof.store import Store

    for _ in range(OPENINGS - 1):
        with suppress(UnreachableStoreError):
            return Store.open(url)
        time.sleep(REOPEN_S)
    return Store.open(url)


class Sweep:
    """A running sweep: the store, the stations and the plan together.

    Args:
        ledger: the ledger of a sweep that has not begun.
        meanwhile: see `run_sweep`.
        before: the ledger of the same sweep in a database now out of reach. Trials known to be finished there are not
            repeated, nor those that other processes may be running.
    """

    def __init__(
        self,
        ledger: Ledger,
        project: Project,
        meanwhile: Callable[[], object] | None = None,
        before: Ledger | None = None,
    ) -> None:
        self.ledger, self.project, self.meanwhile, self.before = ledger, project, meanwhile, before
        self.prepared, self.store = ledger.prepared, ledger.store
        self.fleet, self.observer = ledger.fleet, ledger.observer
        self.calibrator = Calibrator(ledger)
        self.references: set[str] = set()
        self.locks = DeviceLocks(partial(self.fleet.call, self.observer.note))

    def run(self) -> SweepResult:
        """Run the remaining trials of the plan."""
        from cuprof.engine.presence import Presence

        store, ledger = self.store, self.ledger
        try:
            left = self._take_up()
            with Presence(store, self.fleet.stations):
                self._measure(left)
                ledger.confirm(left)
                self._compare_sessions()
            store.finish_sweep(ledger.sweep_id, "interrupted" if self.before else "finished")
        except UnreachableStoreError:
            raise
        except BaseException:
            if ledger.sweep_id:
                store.leave([one.number for one in self.fleet.stations if one.number is not None])
                store.finish_sweep(ledger.sweep_id, "interrupted")
            raise
        self.observer.finished(ledger.sweep_id)
        if self.prepared.is_search and len(ledger.failed) < len(ledger.members):  # that some fail is part of searching
            return SweepResult(ledger.sweep_id, (), url=store.url)
        for trial in ledger.surprises:
            self.observer.note(f"{trial.label} is expected to be wrong and was found right")
        ends = tuple(ledger.failed), tuple(ledger.surprises), tuple(ledger.faults)
        return SweepResult(ledger.sweep_id, *ends, store.url)

    def _take_up(self) -> list[Trial]:
        """Start or continue the sweep and report finished trials; return the trials left to run."""
        from cuprof.store.connection import database_file
        from cuprof.store.network import describe_network

        prepared, store, ledger, note = self.prepared, self.store, self.ledger, self.observer.note
        plan, known, facts = prepared.plan, {} if prepared.is_search else prepared.stored(store), self._facts()
        with store.snapshot() as connection:
            outdated = count_outdated(connection, plan.family.name)
        with shielded():  # no sweep is begun whose number is not known
            ledger.sweep_id = self._begin(facts)
        ledger.started_at = store.read_start(ledger.sweep_id)
        settled = [
            trial for trial in plan.trials if prepared.is_settled(trial, known.get(trial.identity), ledger.sweep_id)
        ]
        again = [trial for trial in plan.trials if prepared.is_skipped_again(trial, known.get(trial.identity))]
        done = {trial.identity for trial in settled}
        new = [trial for trial in plan.trials if not trial.unavailable and trial.identity not in done]
        references = prepared.find_references(known, new, ledger.sweep_id) if settled else []
        self.references = {trial.identity for trial in references}
        settled = [trial for trial in settled if trial.identity not in self.references]
        reused = {trial.identity: known[trial.identity] for trial in (*settled, *again)}
        due = [trial for trial in plan.trials if trial.identity not in reused and not trial.unavailable]
        is_host_timed = any(self._is_timed_on_host(trial) for trial in due)
        if is_host_timed:
            self.meanwhile = None
        if not due:
            self._begin_meanwhile()
        if prepared.is_search:
            ledger.recall()
            self.observer.started(None, ledger.members)
            note(f"a search among {count(len(plan.trials), 'trial')}")
        else:
            store.enlist(ledger.sweep_id, plan.trials, reused=reused)
            self.observer.started(len(plan.trials), {trial.identity for trial in settled})
        place = database_file(store.parsed_url)
        for text in (*plan.notes, *filter(None, [describe_network(place) if place else ""])):
            note(text)
        if outdated:
            note(
                f"{count(outdated, 'stored trial')} of {plan.family.name} have identities of an earlier version: they "
                "stay readable, and are not reused"
            )
        for text in self._describe_again(references if settled else [], due, known):
            note(text)
        ledger.take_stored(settled, known)
        if self.before is not None:
            ledger.take_over(self.before)
        if not prepared.is_search:
            open_trials = [trial for trial in plan.trials if trial.identity not in ledger.concluded]
            ledger.skip([trial for trial in open_trials if trial.unavailable], reused)
        if is_host_timed and (busy := describe_load()):
            note(busy)
        return [trial for trial in due if trial.identity not in ledger.concluded]

    def _describe_again(
        self, references: Sequence[Trial], due: Sequence[Trial], known: Mapping[str, StoredTrial]
    ) -> Iterator[str]:
        """Yield a line on each reason why stored trials are timed again."""
        if references:
            yield (
                f"{_timed_again(len(references))}, to see whether stored times still hold: "
                f"{list_first([trial.label for trial in references], 3)}"
            )
        if self.prepared.config.retry == "noisy":
            stored = [known[trial.identity] for trial in due if trial.identity in known]
            noisy = sum(map(self.prepared.is_noisy, stored))
            yield _timed_again(noisy, f" wider than ±{100 * self.prepared.widest:.3g} %")

    def _compare_sessions(self) -> None:
        """Say whether the stored times that this sweep takes over still hold."""
        if not self.references:
            return
        with self.store.snapshot() as connection:
            found = compare_sessions(connection, self.ledger.sweep_id)
        for each in found:
            tried = f"{count(each.controls, 'trial')} timed again {'differ' if each.controls > 1 else 'differs'} {each}"
            if each.agrees:
                self.observer.note(f"times of sweep {each.sweep_id} still hold: {tried}")
            else:
                self.observer.note(
                    f"times of sweep {each.sweep_id} do not hold today: {tried}; they are marked, and get no speed-up "
                    "against today's (retry=all measures everything together)"
                )

    def _begin(self, facts: SweepFacts) -> int:
        if not self.prepared.is_shared:
            return self.store.begin_sweep(facts)
        stations = self.fleet.stations
        sweep_id, numbers = self.store.join_sweep(facts, [station.name for station in stations])
        for station, number in zip(stations, numbers, strict=True):
            station.number = number
        return sweep_id

    def _measure(self, trials: Sequence[Trial]) -> None:
        """Have the trials that are left run in the order of the plan, or a search choose of them."""
        prepared, call = self.prepared, self.fleet.call
        withdrawn: Sequence[str] = ()
        with ExitStack() as collectors:
            if prepared.is_search:
                from cuprof.engine.search import open_search  # NumPy and SciPy are for searches

                search = open_search(prepared, trials, self.ledger, collectors, self.project, self._read_clock)
                feed: Feed = search
                withdrawn = search.withdrawn
            else:
                claim = self.ledger.claim if prepared.is_shared else None
                feed = plan_feed(prepared, trials, self.fleet.stations, claim)
            for station in self.fleet.stations:
                station.runner.watch = partial(call, self._show, station)
            try:
                self.fleet.run(feed, partial(self._work, feed))
            finally:  # they would hold one another, and the plan, for as long as there is memory
                for station in self.fleet.stations:
                    station.runner.watch = nobody
        self.ledger.withdraw(withdrawn)

    def _work(self, feed: Feed, station: Station, job: Job) -> None:
        """Do a job at a station."""
        call = self.fleet.call
        # A search holds its looks at a trial against each other, each in a job of its own.
        is_search = self.prepared.is_search
        number = secrets.token_hex(8) if is_search else station.find_series(job.problem, job.backend)
        if is_search:
            call(self.ledger.enlist, job)
        with self._turn(station, job):
            station.doing = ""
            if job.methods and job.backend not in station.plausibility:  # the calibration bounds the first time
                self.calibrator.calibrate(station, job.backend)
            for outcome in station.runner.run(job, partial(self.calibrator.believe, station)):
                if station.runner.lost and call(self._retire, station, feed, job):
                    return
                call(self._conclude, feed, station, number, outcome)
            call(feed.finish, station)
        station.doing = ""

    def _conclude(self, feed: Feed, station: Station, job: str, outcome: Outcome) -> None:
        if self.ledger.conclude(station, job, outcome):
            feed.tell(station, outcome)

    def _retire(self, station: Station, feed: Feed, job: Job) -> bool:
        """Give the work of a station whose device has failed to others; return False where there are none."""
        if not self.fleet.retire(station, feed, job):
            return False
        if station.number is not None:
            self.store.leave([station.number])
        self.observer.note(f"{station.name} has failed ({station.runner.lost}); its work is given to the others")
        return True

    def _begin_meanwhile(self) -> None:
        """Start the background work for waiting times, unless it has started."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            Thread(target=meanwhile, daemon=True).start()

    def _show(self, station: Station, given: JobTrial, phase: Phase) -> None:
        self._begin_meanwhile()  # a worker has its first job: before, it would have waited for this process
        trial = self.ledger.trials[given.identity]
        station.doing = f"{phase.name.lower()}: {trial.label}"
        self.observer.trial_started(trial, phase.name.lower())

    def _turn(self, station: Station, job: Job) -> AbstractContextManager[None]:
        """Keep other cuprof processes off the job's device: their work would show in its times."""
        device = station.find_device(job.backend)
        if device is None:
            return nullcontext()
        station.doing = "waiting for its turn on the device"
        return self.locks.hold(device)

    def _read_clock(self) -> float:
        """Return seconds that stand still while turns are waited for: others' work spends no budget."""
        return time.monotonic() - self.locks.waited_s / len(self.fleet.stations)

    def _is_timed_on_host(self, trial: Trial) -> bool:
        return is_host(trial.device) and bool(self.prepared.methods[trial.backend])

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
            host=platform.node(),
            git=git_state(family.folder or self.project.root),
            software=software_versions(),
            started_at=self.before.started_at if self.before else 0.0,
            purpose=config.purpose or ("timing" if any(self.prepared.methods.values()) else "profiling"),
        )


def _timed_again(number: int, which: str = "") -> str:
    """Return "1 stored trial is timed again", "2 stored trials are timed again"."""
    return f"{count(number, 'stored trial')}{which} {'is' if number == 1 else 'are'} timed again"
