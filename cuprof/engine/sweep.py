"""One sweep from configuration to stored rows."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from threading import Thread

from cuprof.backends.registry import is_host
from cuprof.config.model import SweepConfig
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.host_load import describe_load
from cuprof.engine.observer import Observer, SilentObserver
from cuprof.engine.planning import Prepared, prepare
from cuprof.engine.plausibility import Plausibility
from cuprof.engine.provenance import git_state, host_name, name_processes, software_versions, typed_command
from cuprof.engine.runner import JobRunner
from cuprof.errors import EmptyStoreError, WorkerError
from cuprof.interrupts import shielded
from cuprof.project import Project
from cuprof.records import ENERGY_UNAVAILABLE, FAILED, DeviceFacts, Outcome, State, SweepFacts, Trial
from cuprof.store import Store
from cuprof.store.connection import database_file, parse_url
from cuprof.store.network import describe_network
from cuprof.store.trials import StoredTrial
from cuprof.worker.messages import Job, JobTrial, WorkerSettings
from cuprof.worker.status_page import Phase


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    Args:
        failed: the trials that failed, those expected to be wrong left out.
        surprises: trials expected to be wrong that were found right.
    """

    sweep_id: int
    failed: tuple[tuple[Trial, Outcome], ...]
    surprises: tuple[Trial, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 1 where a trial failed or an expectation did, else 0."""
        return 1 if self.failed or self.surprises else 0


@dataclass(frozen=True)
class PreviewRow:
    """One trial of a dry run: what is known of it without running anything."""

    label: str
    identity: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class Preview:
    """What a sweep would do, and what it would tell beside."""

    rows: tuple[PreviewRow, ...]
    notes: tuple[str, ...] = ()


def run_sweep(
    config: SweepConfig, project: Project, observer: Observer, meanwhile: Callable[[], object] | None = None
) -> SweepResult:
    """Check, time and store every trial that is not stored yet.

    Each trial is durable before the next is reported. On an interrupt the sweep is marked and can be continued by the
    same command.

    Args:
        meanwhile: run in a thread while the worker measures a device; not where the host itself is timed, since it
            would take part in the times.

    Raises:
        UsageError: the request cannot be carried out; nothing has been stored.
        StoreError: the database cannot be used.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    with open_runner(config, observer) as (runner, watcher):
        prepared = prepare(config, project, runner)
        watcher.know(prepared.plan.trials)
        with Store.open(store_url(config, project)) as store:
            return Sweep(prepared, project, store, runner, observer, meanwhile).run()


def preview(config: SweepConfig, project: Project) -> Preview:
    """Return the trials of a sweep and what is stored of each, without running or storing anything."""
    with open_runner(config, SilentObserver()) as (runner, _):
        prepared = prepare(config, project, runner)
    with open_existing(config, project) as store:
        known = prepared.stored(store) if store is not None else {}
    rows = [_preview_row(prepared, trial, known.get(trial.identity)) for trial in prepared.plan.trials]
    rows += [PreviewRow(exclusion.label, "", "excluded", exclusion.reason) for exclusion in prepared.plan.excluded]
    return Preview(tuple(rows), prepared.plan.notes)


@contextmanager
def open_existing(config: SweepConfig, project: Project) -> Iterator[Store | None]:
    """Open the database of a configuration for reading, or give None where there is none yet."""
    url = store_url(config, project)
    file = database_file(parse_url(url))
    if file is not None and not file.exists():
        yield None
        return
    try:
        store = Store.open(url, create=False, read_only=True)
    except EmptyStoreError:
        yield None
        return
    with store:
        yield store


def store_url(config: SweepConfig, project: Project) -> str:
    """Return the database that a configuration writes to."""
    return config.store.url or project.database_url


def _preview_row(prepared: Prepared, trial: Trial, known: StoredTrial | None) -> PreviewRow:
    if prepared.is_settled(trial, known) and known is not None:
        return PreviewRow(trial.label, trial.identity, "stored", "" if known.state is State.OK else known.state.value)
    if trial.unavailable:
        return PreviewRow(trial.label, trial.identity, "unavailable", str(trial.unavailable))
    return PreviewRow(trial.label, trial.identity, "missing")


class Watcher:
    """Turn what the runner sees into what the observer is told."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._trials: dict[str, Trial] = {}

    def know(self, trials: Sequence[Trial]) -> None:
        """Take the planned trials."""
        self._trials = {trial.identity: trial for trial in trials}

    def __call__(self, job: JobTrial, phase: Phase) -> None:
        trial = self._trials.get(job.identity)
        if trial is not None:
            self._observer.trial_started(trial, phase.name.lower())


@contextmanager
def open_runner(config: SweepConfig, observer: Observer) -> Iterator[tuple[JobRunner, Watcher]]:
    watcher = Watcher(observer)
    with JobRunner(WorkerSettings(config.device.numbers()), config.limits, watcher) as runner:
        yield runner, watcher


class Sweep:
    """One sweep under way: the store, the worker and the plan together."""

    def __init__(
        self,
        prepared: Prepared,
        project: Project,
        store: Store,
        runner: JobRunner,
        observer: Observer,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        self.prepared, self.project, self.store = prepared, project, store
        self.runner, self.observer, self.meanwhile = runner, observer, meanwhile
        self.locks = DeviceLocks(observer.note)
        self.failed: list[tuple[Trial, Outcome]] = []
        self.surprises: list[Trial] = []
        self._plausibility: dict[str, Plausibility] = {}
        self._medians: dict[str, dict[str, float]] = {}
        self._without_energy: set[tuple[str, str]] = set()

    def run(self) -> SweepResult:
        """Do what is left to do of the plan."""
        plan, store = self.prepared.plan, self.store
        known = self.prepared.stored(store)
        facts, sweep_id = self._facts(), None
        try:
            with shielded():  # no sweep is begun whose number is not known
                sweep_id = store.begin_sweep(facts)
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
            done = {trial.identity for trial in settled}
            open_trials = [trial for trial in plan.trials if trial.identity not in done]
            self._skip(sweep_id, [trial for trial in open_trials if trial.unavailable], known)
            runnable = [trial for trial in open_trials if not trial.unavailable]
            if any(self._is_timed_on_host(trial) for trial in runnable):
                if busy := describe_load():
                    self.observer.note(busy)
            elif self.meanwhile:
                Thread(target=self.meanwhile, daemon=True).start()
            self._measure(sweep_id, runnable)
            self._confirm(sweep_id, runnable)
            store.finish_sweep(sweep_id, "finished")
        except BaseException:
            if sweep_id is not None:
                store.finish_sweep(sweep_id, "interrupted")
            raise
        self.observer.finished(sweep_id)
        for trial in self.surprises:
            self.observer.note(f"{trial.label} is expected to be wrong and was found right")
        return SweepResult(sweep_id, tuple(self.failed), tuple(self.surprises))

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
        by_identity = {trial.identity: trial for trial in trials}
        calibrated: set[str] = set()
        seed = self.prepared.config.check.seed
        for job in list_jobs(self.prepared, trials, secrets.randbits(63) if seed is None else seed):
            with self._turn(job):
                is_due = bool(job.methods) and job.backend not in calibrated
                # A GPU says first who else computes on it; measuring the host's memory has time.
                is_early = is_due and not self._is_host(job.backend)
                calibrated.add(job.backend)
                if is_early:
                    self._calibrate(sweep_id, job.backend)
                for outcome in self.runner.run(job, partial(self._believe, by_identity)):
                    self._record(sweep_id, by_identity[outcome.identity], outcome)
                if is_due and not is_early:
                    self._calibrate(sweep_id, job.backend)

    def _confirm(self, sweep_id: int, trials: Sequence[Trial]) -> None:
        """Hold what is stored against what was measured, once nothing runs any more that a variant can have started."""
        if all(trial.kind == "kernel" for trial in trials if trial.identity in self._medians):
            return
        self.runner.replace_worker()
        stored = self.store.list_medians(sweep_id)
        for trial in trials:
            if trial.identity in self._medians and stored.get(trial.identity, {}) != self._medians[trial.identity]:
                message = "what was stored of it was changed while its sweep went on"
                self._record(
                    sweep_id, trial, Outcome(trial.identity, State.IMPLAUSIBLE, message, started_at=time.time())
                )

    def _is_host(self, backend: str) -> bool:
        device = self.prepared.devices[backend]
        return isinstance(device, DeviceFacts) and is_host(backend, device.details)

    def _turn(self, job: Job) -> AbstractContextManager[None]:
        """Return what keeps other cuprof processes off the job's device while it is timed on."""
        device = self.prepared.devices[job.backend]
        return self.locks.hold(device) if job.methods and isinstance(device, DeviceFacts) else nullcontext()

    def _is_timed_on_host(self, trial: Trial) -> bool:
        return (
            trial.device is not None
            and is_host(trial.backend, trial.device.details)
            and bool(self.prepared.methods[trial.backend])
        )

    def _calibrate(self, sweep_id: int, backend: str) -> None:
        device = self.prepared.devices[backend]
        if isinstance(device, DeviceFacts) and self._is_remembered(sweep_id, device):
            return
        try:
            answer = self.runner.worker.calibrate(backend)
        except WorkerError as error:
            self.runner.replace_worker()
            self.observer.note(f"{backend}: the device could not be calibrated: {error}")
            return
        others = answer.calibration.details.get("other_processes") if answer.calibration else None
        if others:
            self.observer.note(f"{backend}: other processes compute on the device: {name_processes(others)}")
        if answer.calibration is None:
            self.observer.note(f"{backend}: the device could not be calibrated: {answer.fault}")
        elif isinstance(device, DeviceFacts):
            self.store.save_calibration(sweep_id, device, answer.calibration)
            cache_bytes = int(device.details.get("l2_bytes") or 0)
            on_host = is_host(backend, device.details)
            flushed = self.prepared.config.measure.flush != "none"
            self._plausibility[backend] = Plausibility(on_host, answer.calibration, cache_bytes, flushed)

    def _is_remembered(self, sweep_id: int, device: DeviceFacts) -> bool:
        """Return whether the host's figures were taken from an earlier sweep; `retry=all` measures everything anew."""
        return (
            is_host(device.backend, device.details)
            and self.prepared.config.retry != "all"
            and self.store.reuse_calibration(sweep_id, device)
        )

    def _believe(self, trials: Mapping[str, Trial], outcome: Outcome) -> Outcome:
        """Return the outcome, implausible where the device cannot be as fast as it says."""
        if not outcome.timings:
            return outcome
        trial = trials[outcome.identity]
        outputs = self.prepared.family.signature(trial.problem).outputs.values()
        plausibility = self._plausibility.get(trial.backend) or Plausibility(self._is_host(trial.backend))
        return plausibility.judge(trial, outcome, sum(spec.nbytes for spec in outputs))

    def _record(self, sweep_id: int, trial: Trial, outcome: Outcome) -> None:
        self.store.record(sweep_id, outcome)
        if outcome.state is State.OK:
            self._medians[trial.identity] = {each.measure.value: each.summary.median_ns for each in outcome.timings}
        self._tell(trial, outcome)
        for timing in outcome.timings:
            reason = timing.details.get(ENERGY_UNAVAILABLE)
            if reason and (trial.backend, reason) not in self._without_energy:
                self._without_energy.add((trial.backend, reason))
                self.observer.note(f"{trial.backend}: energy is not measured: {reason}")

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        self._judge(trial, outcome.state, outcome.message)
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
            purpose=config.purpose or ("timing" if any(self.prepared.methods.values()) else "profiling"),
        )


def list_jobs(prepared: Prepared, trials: Sequence[Trial], seed: int) -> Iterator[Job]:
    """Yield a job for each problem and back end, in the order of the plan.

    Where the configuration asks for it, each variant that runs its own code in the worker has a job of its own.
    """
    isolate = prepared.config.limits.isolate
    folder = prepared.family.folder
    if folder is None:
        raise ValueError("the family was not loaded from a folder")
    for problem, of_problem in groupby(trials, key=lambda trial: trial.problem):
        members = list(of_problem)
        for backend in dict.fromkeys(trial.backend for trial in members):
            of_backend = [trial for trial in members if trial.backend == backend]
            groups: dict[str, list[JobTrial]] = {}
            for trial in of_backend:
                process = trial.variant if isolate and trial.kind != "kernel" else ""
                member = JobTrial(trial.identity, trial.variant, trial.tunables, trial.source_text)
                groups.setdefault(process, []).append(member)
            for process, jobs in groups.items():
                yield Job(
                    family_folder=folder,
                    backend=backend,
                    problem=problem,
                    trials=tuple(jobs),
                    seed=seed,
                    measure=prepared.config.measure,
                    methods=prepared.methods[backend],
                    extension=prepared.extension,
                    isolated=bool(process),
                )
