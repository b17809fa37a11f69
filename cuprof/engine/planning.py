"""Turn a configuration into planned trials: the family, its devices, the methods, and the stored outcome of each
trial. Then group the trials that a worker measures together into jobs."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from cuprof.backends.registry import is_host
from cuprof.config.model import MeasureConfig, SweepConfig
from cuprof.core.errors import FamilyError, WorkerError
from cuprof.core.point import Axes, Point
from cuprof.core.project import Project
from cuprof.core.records import FAILED, DeviceFacts, Devices, Measure, State, StoredTrial, Trial, Unavailable
from cuprof.engine.devices import enroll
from cuprof.engine.executor import Executor
from cuprof.engine.opened import OpenedFiles
from cuprof.families import Family
from cuprof.families.candidate import Extension
from cuprof.families.origin import Folder
from cuprof.interop.origins import find_origin
from cuprof.plan import Plan, Selection, plan, plan_hash
from cuprof.plan.axes import ALL
from cuprof.plan.selection import read_selection, select_variants
from cuprof.worker.messages import Job, JobTrial, Load, Probe, Probed
from cuprof.worker.method import ignored_settings, methods

if TYPE_CHECKING:
    from cuprof.store.store import Store


@dataclass(frozen=True)
class Prepared:
    """A planned sweep.

    Args:
        devices: back end → its device, or why there is none.
        methods: back end → measure → the method's hash.
        hash: hash of everything that decides trials and methods.
        extension: a file that adds to the family; workers load it, this process does not.
        is_private: it goes by no stored results, shares its trials with no other process, and lets the project remember
            no files that its variants open.
    """

    config: SweepConfig
    family: Family
    plan: Plan
    devices: Devices
    methods: Mapping[str, Mapping[Measure, str]]
    hash: str
    extension: Extension | None = None
    is_private: bool = False

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may run a part of it."""
        return not (self.is_private or self.on_each_card or self.config.search.name)

    @property
    def on_each_card(self) -> bool:
        """Return whether every GPU measures everything, so that cards are compared."""
        return self.config.device.cuda == ("each",) and bool(self.methods)

    @cached_property
    def seed(self) -> int:
        """Return the seed of the inputs: the configured one, or a random one that is drawn once."""
        seed = self.config.check.seed
        return secrets.randbits(63) if seed is None else seed

    def stored(self, store: Store) -> dict[str, StoredTrial]:
        """Return the stored outcomes of the planned trials, by identity."""
        found: dict[str, StoredTrial] = {}
        for backend, wanted in self.methods.items() if not self.is_private else ():
            identities = [trial.identity for trial in self.plan.trials if trial.backend == backend]
            if identities:
                found |= store.stored(identities, wanted)
        return found

    def is_settled(self, trial: Trial, known: StoredTrial | None, sweep_id: int | None = None) -> bool:
        """Return whether a trial needs no more work, given `retry`.

        Args:
            sweep_id: the current sweep; trials that it finished before an interruption are not repeated.
        """
        if known is None or not known.complete:
            return False
        if self.on_each_card and trial.device is not None and not is_host(trial.device):
            return False  # one card's measurements say nothing about the others
        if known.sweep_id == sweep_id or not self.config.retry:
            return True
        if self.config.retry == "noisy":
            return not self.is_noisy(known)
        return self.config.retry == "failed" and known.state not in FAILED

    @property
    def widest(self) -> float:
        """Return the half-width of an interval, as a share of the median, that `retry=noisy` leaves as it is."""
        return self.config.retry_above or self.config.measure.target

    def is_noisy(self, known: StoredTrial) -> bool:
        """Return whether a stored time's interval is wider than `widest`."""
        return known.state is State.OK and known.half_width > self.widest

    def find_references(self, known: Mapping[str, StoredTrial], due: Iterable[Trial], sweep_id: int) -> list[Trial]:
        """Return the settled trials to time again beside the remaining ones, to see whether stored times still hold.

        For each problem and back end with a remaining trial, these are the stored best and the baseline's stored best.
        Trials that were skipped before, or failed, may well be again, so they alone are no reason.
        """
        failing = {State.SKIPPED, *FAILED}
        concerned = {
            job_key(trial) for trial in due if trial.identity not in known or known[trial.identity].state not in failing
        }
        bests: dict[tuple[object, ...], tuple[float, Trial]] = {}
        for trial in self.plan.trials:
            stored = known.get(trial.identity)
            if stored is None or not stored.median_ns or stored.state is not State.OK or not stored.complete:
                continue
            if job_key(trial) not in concerned or trial.expected != "right":
                continue
            is_baseline = trial.variant == (self.config.baseline or self.family.get_baseline())
            for key in (job_key(trial), *([(trial.problem, "baseline")] if is_baseline else [])):
                if key not in bests or stored.median_ns < bests[key][0]:
                    bests[key] = (stored.median_ns, trial)
        chosen = {trial.identity: trial for _, trial in bests.values() if known[trial.identity].sweep_id != sweep_id}
        return list(chosen.values())

    def list_jobs(
        self, trials: Iterable[Trial], measure: MeasureConfig | None = None, *, together: bool = False
    ) -> list[Job]:
        """Return a job for each problem and back end, in the order of the trials.

        If the configuration isolates variants, each one that runs its own code in the worker has a job of its own.

        Args:
            measure: how to time them, in place of the configuration's way.
            together: isolate none, so that all can be compared side by side.
        """
        isolates, family = self.config.limits.isolate and not together, self.family
        groups: dict[tuple[Point, str, str], list[Trial]] = defaultdict(list)
        for trial in trials:
            process = trial.variant if isolates and trial.kind != "kernel" else ""
            groups[trial.problem, trial.backend, process].append(trial)
        return [
            Job(
                origin=family.origin,
                backend=backend,
                problem=problem,
                trials=tuple(map(_job_trial, members)),
                seed=self.seed,
                measure=measure or self.config.measure,
                methods=methods(measure, backend) if measure else self.methods[backend],
                extension=self.extension,
                isolated=bool(process),
                code=family.code,
            )
            for (problem, backend, process), members in groups.items()
        ]

    def find_shared(self) -> dict[tuple[Point, str], JobTrial]:
        """Return problem and back end → the trial that blocks share: the baseline's default one, its first, or any."""
        baseline = self.config.baseline or self.family.get_baseline()
        usual = Point((each.name, each.default) for each in self.family.variant(baseline).tunables)
        found: dict[tuple[Point, str], list[Trial]] = defaultdict(list)
        for trial in self.plan.trials:
            if trial.unavailable is None and trial.expected != "wrong":
                found[job_key(trial)].append(trial)

        def rank(trial: Trial) -> tuple[bool, bool]:
            return trial.variant == baseline, trial.variant == baseline and trial.tunables == usual

        return {key: _job_trial(max(trials, key=rank)) for key, trials in found.items()}


def job_key(each: Trial | Job) -> tuple[Point, str]:
    """Return what trials of one job have in common: problem and back end."""
    return each.problem, each.backend


def _job_trial(trial: Trial) -> JobTrial:
    return JobTrial(trial.identity, trial.variant, trial.tunables, trial.source_text)


def choose_problems(family: Family, config: SweepConfig) -> tuple[Axes, tuple[str, ...]]:
    """Return values by problem axis, and presets: those asked for, and else the family's usual ones."""
    usual = {} if config.presets else dict(family.usual.get("problem", {}))
    presets = config.presets or tuple(map(str, usual.pop("preset", ())))
    return {**usual, **config.problem}, presets


def prepare(
    config: SweepConfig,
    project: Project,
    executors: list[Executor],
    *,
    timed: bool = True,
    family: Family | None = None,
) -> Prepared:
    """Load the family, ask the executors' workers for devices, and plan.

    Args:
        executors: receive their devices; those without a usable one are removed.
        timed: time the configuration's measures; otherwise only check the trials.
        family: the configuration's family, if already loaded.

    Raises:
        UsageError: the selection cannot be carried out; nothing has been stored.
    """
    if config.search.counters:
        from cuprof.engine.objective import check_names  # SQLAlchemy's import can wait for other sweeps

        check_names(config.search.counters)
    family = _load(config, project, executors[0]) if family is None else family
    OpenedFiles(project, family).add_to_family()
    if config.baseline:
        family.variant(config.baseline)
    usual_tune, is_whole = family.usual.get("tune", {}), config.search.name or ALL in config.tune
    problem, presets = choose_problems(family, config)
    selection = Selection(
        variants=config.variants,
        problem=problem,
        tune=find_whole_space(family, config) if is_whole else {**usual_tune, **config.tune},
        presets=presets,
        optional=config.optional | (usual_tune.keys() - config.tune.keys()),
    )
    _probe(family, selection, config, executors[0])
    backends = tuple(dict.fromkeys(variant.backend for variant in select_variants(family, selection.variants)))
    by_backend: dict[str, Mapping[Measure, str]] = {
        backend: methods(config.measure, backend) if timed else {} for backend in backends
    }
    untimed = {backend for backend in backends if timed and not by_backend[backend]}
    notes = enroll(config, executors, tuple(backend for backend in backends if backend not in untimed))
    devices = dict(executors[0].devices)
    modes = " and ".join(config.measure.modes)
    for backend in untimed:
        devices[backend] = Unavailable(f"the {backend} back end has no {modes} time", "measure.modes=[cold]")
    planned = plan(family, selection, devices)
    if timed:
        usable = [backend for backend, device in devices.items() if isinstance(device, DeviceFacts)]
        ignored = ignored_settings(config.measure, usable)
        unheeded = (f"measure.{name} has no effect on {' and '.join(usable)} variants" for name in ignored)
        planned = replace(planned, notes=(*planned.notes, *unheeded, *notes))
    if not config.dry_run:
        planned.require_runnable()
    return Prepared(config, family, planned, devices, by_backend, _hash(config, planned, by_backend))


def _hash(config: SweepConfig, planned: Plan, by_backend: Mapping[str, Mapping[Measure, str]]) -> str:
    """Return the hash of a sweep; one that was interrupted goes on under the same hash alone."""
    facts = {f"{backend}.{measure}": value for backend, table in by_backend.items() for measure, value in table.items()}
    if config.retry:
        facts["retry"] = config.retry
    if config.device.cuda == ("each",):
        facts["cards"] = "each"
    if config.search.name:
        facts["search"] = repr(config.search)
    return plan_hash(planned, facts)


def _load(config: SweepConfig, project: Project, executor: Executor) -> Family:
    """Load the configuration's family; a script may take seconds to import, so a worker imports it meanwhile."""
    origin = find_origin(config.family, project.folders("kernels"))
    if not isinstance(origin, Folder):
        executor.tell(Load(origin))
    return origin.load()


def _probe(family: Family, selection: Selection, config: SweepConfig, executor: Executor) -> None:
    """Let a worker run the functions of a family whose shapes show only then; nothing of them runs in this process."""
    if family.sample is None or family.origin is None:
        return
    problems = tuple(read_selection(family, selection).problems)
    try:
        probe = Probe(family.origin, problems)
        probed: Probed = executor.worker.ask(probe, Probed, limit_s=config.limits.trial_s)
    except WorkerError as error:
        executor.drop_worker()
        raise FamilyError(f"family {family.name}: {error} while making its inputs and first results") from None
    if probed.fault:
        raise FamilyError(f"family {family.name}: {probed.fault}")
    family.learn(dict(zip(problems, probed.samples, strict=True)))


def find_whole_space(family: Family, config: SweepConfig) -> Axes:
    """Return what `tune=all` and a search choose from: of tunables that are not named, every value."""
    variants = select_variants(family, config.variants)
    told = {name: values for name, values in config.tune.items() if name != ALL}
    return {**{tunable.name: (ALL,) for variant in variants for tunable in variant.tunables}, **told}
