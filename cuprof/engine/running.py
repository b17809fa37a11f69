"""One sweep from configuration to stored rows: planned, begun or continued in the store, measured, and summed up."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread

from cuprof.backends.registry import is_host
from cuprof.config.model import SweepConfig
from cuprof.core.errors import StoreError, UnreachableStoreError
from cuprof.core.interrupts import shielded
from cuprof.core.processes import count_cores, import_ahead
from cuprof.core.project import Project
from cuprof.core.records import Outcome, SweepFacts, Trial
from cuprof.core.text import count
from cuprof.engine.devices import open_executors
from cuprof.engine.dispatcher import Dispatcher, Scheduler
from cuprof.engine.executor import Executor
from cuprof.engine.grid import open_grid
from cuprof.engine.merging import hand_in, open_spool
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.engine.provenance import git_state, software_versions, typed_command
from cuprof.engine.recorder import Recorder
from cuprof.families import Family
from cuprof.results.earlier import count_outdated
from cuprof.results.progress import count_done, list_at_work
from cuprof.store.connection import database_file, describe_network, parse_url
from cuprof.store.stations import BEAT_S
from cuprof.store.store import Store

OPENINGS, REOPEN_S = 3, 0.5
SEARCHING = ("scipy.linalg", "scipy.optimize", "scipy.special")
"""Modules for a search; SciPy is needed only after its first jobs."""
BUSY_SHARE = 0.5
"""If the load per usable core is above this, other work often runs on a variant's core while it is timed."""


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Args:
        failed: trials that failed, except those expected to be wrong.
        surprises: trials expected to be wrong that were found right.
        faults: errors of the family's functions, because of which trials were skipped.
        url: the database that the sweep is stored in.
        is_complete: nothing is left to measure; False where results wait in a file for their database.
    """

    sweep_id: int
    failed: tuple[tuple[Trial, Outcome], ...] = ()
    surprises: tuple[Trial, ...] = ()
    faults: tuple[str, ...] = ()
    url: str = ""
    is_complete: bool = True

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
        meanwhile: called, to start a thread, in a worker's first job, or else if nothing is left to do. It is not
            called if the host is timed, since it would disturb the times.
        family: the configuration's family, if already loaded.

    Raises:
        UsageError: the request cannot be carried out; nothing has been stored.
        StoreError: the database cannot be used.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    url = config.store.url or project.database_url
    before: Recorder | None = None
    if config.search.name:
        Thread(target=import_ahead, args=SEARCHING, daemon=True).start()
    with ExitStack() as stack:
        while True:
            with open_executors(config) as executors:
                prepared = prepare(config, project, executors, family=family)
                for executor in executors:
                    executor.open_ahead()
                place = database_file(parse_url(url))
                is_first = place is not None and not place.exists()
                recorder: Recorder | None = None
                try:
                    with _open_store(url) as store:
                        for text in hand_in(store, project) if place is None else ():
                            observer.note(text)
                        if is_first:
                            observer.note(f"results are stored in {place}")
                        recorder = Recorder(prepared, project, store, executors, observer, before)
                        result = Run(recorder, meanwhile).run()
                        for executor in executors:
                            executor.retire_worker()
                        return result
                except UnreachableStoreError as error:
                    observer.note(f"{error}; results are kept in a file until the next sweep that reaches it")
            before = recorder if recorder is not None and recorder.sweep_id else None
            url = stack.enter_context(open_spool(project, url))


def _open_store(url: str) -> Store:
    """Open the database; a server is asked several times, since one connection may be lost for any reason."""
    for _ in range(OPENINGS - 1):
        with suppress(UnreachableStoreError):
            return Store.open(url)
        time.sleep(REOPEN_S)
    return Store.open(url)


class Run:
    """A sweep that is carried out: that of a recorder, which has not begun; for `meanwhile` see `run_sweep`."""

    def __init__(self, recorder: Recorder, meanwhile: Callable[[], object] | None = None) -> None:
        self.recorder, self.meanwhile = recorder, meanwhile
        self.prepared, self.store, self.observer = recorder.prepared, recorder.store, recorder.observer

    def run(self) -> SweepResult:
        """Run the trials that are left; raise what `run_sweep` does, also if the database was removed meanwhile."""
        store, recorder = self.store, self.recorder
        store.note = self.observer.note
        if (finished := self._find_finished()) is not None:
            self.observer.note(f"sweep {finished} is complete already")
            return SweepResult(finished, url=store.url)
        try:
            with shielded():  # no sweep is begun whose number is not known
                recorder.sweep_id = self._begin()
            recorder.started_at = store.read_start(recorder.sweep_id)
            self._note_plan()
            dispatcher = Dispatcher(recorder)
            # Of jobs that a scheduler has started, it is their launcher that shows the progress.
            is_shown = self.prepared.is_shared and self.prepared.config.exit != "done"
            share = partial(dispatcher.call, self.observer.shared) if is_shown else None
            with ExitStack() as collectors, present(store, recorder.executors, recorder.sweep_id, share):
                scheduler = self._open_scheduler(dispatcher, collectors)
                dispatcher.run(scheduler, self.meanwhile)
                recorder.judge_others()
                recorder.report_sessions()
            store.finish_sweep(recorder.sweep_id, "interrupted" if recorder.before else "finished")
        except UnreachableStoreError:
            raise
        except BaseException:
            if recorder.sweep_id:
                store.leave([one.number for one in recorder.executors if one.number])
                store.finish_sweep(recorder.sweep_id, "interrupted")
            raise
        store.require_same_file()
        self.observer.finished(recorder.sweep_id)
        if self.prepared.config.search.name and len(recorder.failed) < len(recorder.members):
            return SweepResult(recorder.sweep_id, url=store.url)
        for trial in recorder.surprises:
            self.observer.note(f"{trial.label} is expected to be wrong and was found right")
        ends = tuple(recorder.failed), tuple(recorder.surprises), tuple(recorder.faults)
        return SweepResult(recorder.sweep_id, *ends, store.url, is_complete=recorder.before is None)

    def _find_finished(self) -> int | None:
        """Return the sweep that is complete before this job of it starts: a scheduler may start a job again.

        Only `exit=done` asks for this; otherwise a sweep with nothing to do is a sweep of its own.
        """
        prepared, config = self.prepared, self.prepared.config
        if config.exit != "done" or self.recorder.before:
            return None
        sweep_id = self.store.find_finished(prepared.hash, config.launch.since)
        if sweep_id is None or config.launch.since:
            return sweep_id
        known, trials = prepared.stored(self.store), (trial for trial in prepared.plan.trials if not trial.unavailable)
        is_done = not config.retry and all(prepared.is_settled(trial, known.get(trial.identity)) for trial in trials)
        return sweep_id if is_done else None

    def _begin(self) -> int:
        facts = self._facts()
        if not self.prepared.is_shared:
            return self.store.begin_sweep(facts)
        executors, config = self.recorder.executors, self.prepared.config
        job, since = config.launch.job, config.launch.since if config.exit == "done" else 0.0
        names = [f"{job} {executor.name}" if job else executor.name for executor in executors]
        sweep_id, numbers = self.store.join_sweep(facts, names, since)  # which others may have finished by now
        for executor, number in zip(executors, numbers, strict=True):
            executor.number = number
        return sweep_id

    def _note_plan(self) -> None:
        """Say what the user should know before anything is measured."""
        family, place = self.prepared.family.name, database_file(self.store.parsed_url)
        notes = [*self.prepared.plan.notes, describe_network(place) if place else ""]
        with self.store.snapshot() as connection:
            if outdated := count_outdated(connection, family):
                had = f"{count(outdated, 'stored trial')} of {family} have identities of an earlier version"
                notes.append(f"{had}: they stay readable, and are not reused")
        for text in filter(None, notes):
            self.observer.note(text)

    def _open_scheduler(self, dispatcher: Dispatcher, collectors: ExitStack) -> Scheduler:
        """Return what decides which trials run: all of the plan that are left, or those that a search chooses."""
        recorder = self.recorder
        if self.prepared.config.search.name:
            from cuprof.engine.search import open_search  # NumPy and SciPy are for searches

            search = open_search(recorder, collectors, dispatcher.locks)
            self._take_care_of_host(search.trials)
            return search
        due = recorder.take_up()
        self._take_care_of_host(due)
        return open_grid(recorder, due)

    def _take_care_of_host(self, due: Sequence[Trial]) -> None:
        """Do nothing beside trials that time the host, and say what else it does."""
        if any(is_host(trial.device) and self.prepared.methods[trial.backend] for trial in due):
            self.meanwhile = None
            cores, load = count_cores(), os.getloadavg()[0]
            if load > BUSY_SHARE * cores:
                busy = f"load {load:.1f} on {count(cores, 'core')}"
                self.observer.note(f"the host is busy ({busy}): CPU times will scatter")
        if not due and self.meanwhile:
            self.meanwhile()
            self.meanwhile = None

    def _facts(self) -> SweepFacts:
        config, family, before = self.prepared.config, self.prepared.family, self.recorder.before
        return SweepFacts(
            name=config.experiment or family.name,
            experiment=config.experiment,
            family=family.name,
            baseline=config.baseline or family.get_baseline(),
            plan_hash=self.prepared.hash,
            command_line=config.command_line or typed_command(),
            configuration=dict(config.composed),
            host=platform.node(),
            git=git_state(family.folder or self.recorder.project.root),
            software=software_versions(),
            started_at=before.started_at if before else 0.0,
            purpose=config.purpose or ("timing" if any(self.prepared.methods.values()) else "profiling"),
        )


LOOK_SHARE = 0.02
"""The most of the time that counting everybody's trials may take: of a million trials it takes a second."""
Share = Callable[[int, int, Sequence[str]], None]


@contextmanager
def present(
    store: Store, executors: Sequence[Executor], sweep_id: int = 0, share: Share | None = None
) -> Iterator[None]:
    """Keep the claims of executors alive from a thread, and give them up at the end of the block.

    Args:
        share: called from the thread, while other processes take part, with how many trials all have done, how many
            there are, and a line on each executor of the others.
    """
    ended = Event()

    def beat() -> None:
        look_at = 0.0
        while not ended.wait(BEAT_S):
            mine = {one.number: one.doing for one in executors if one.number}
            # The store may be back before the claims end. A request to stop is for the main thread, which ends them.
            with suppress(StoreError, KeyboardInterrupt):
                store.beat(mine)
                if share is None or (began := time.monotonic()) < look_at:
                    continue
                with store.snapshot() as connection:
                    others = [line for key, line in list_at_work(connection, sweep_id).items() if key not in mine]
                    if others:
                        share(*count_done(connection, sweep_id), others)
                look_at = began + (time.monotonic() - began) / LOOK_SHARE

    thread, is_reachable = Thread(target=beat, daemon=True), True
    thread.start()
    try:
        yield
    except UnreachableStoreError:
        is_reachable = False  # the claims end by themselves
        raise
    finally:
        ended.set()
        thread.join()
        if is_reachable:
            store.leave([one.number for one in executors if one.number])
