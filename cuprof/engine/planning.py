"""From a configuration to planned trials: the family, its devices, the methods, and what is stored of each trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cuprof.config.model import Axes, SweepConfig
from cuprof.engine.runner import JobRunner
from cuprof.engine.station import Station
from cuprof.errors import WorkerError
from cuprof.family import Family
from cuprof.family.extension import Extension
from cuprof.family.loader import get_family
from cuprof.measure.method import ignored_settings, methods
from cuprof.plan import Plan, Selection, plan, plan_hash
from cuprof.plan.axes import ALL
from cuprof.plan.selection import read_selection, select_variants
from cuprof.project import Project
from cuprof.records import DeviceFacts, Measure, Trial, Unavailable
from cuprof.store import Store
from cuprof.store.trials import StoredTrial


@dataclass(frozen=True)
class Prepared:
    """A planned sweep.

    Args:
        devices: back end → its device, or why there is none.
        methods: back end → measure → the method's hash.
        hash: of everything that decides trials and methods.
        extension: a file that adds to the family; workers load it, this process does not.
    """

    config: SweepConfig
    family: Family
    plan: Plan
    devices: Mapping[str, DeviceFacts | Unavailable]
    methods: Mapping[str, Mapping[Measure, str]]
    hash: str
    extension: Extension | None = None

    def stored(self, store: Store) -> dict[str, StoredTrial]:
        """Return what the store has of the trials, by identity."""
        found: dict[str, StoredTrial] = {}
        for backend, wanted in self.methods.items():
            identities = [trial.identity for trial in self.plan.trials if trial.backend == backend]
            if identities:
                found |= store.stored(identities, wanted)
        return found

    def is_settled(self, trial: Trial, known: StoredTrial | None, sweep_id: int | None = None) -> bool:
        """Return whether nothing is left to do for a trial, considering what `retry` asks for.

        Args:
            sweep_id: the sweep under way; what it did before it was interrupted is not done again.
        """
        if known is None or not known.complete:
            return False
        if known.sweep_id == sweep_id or not self.config.retry:
            return True
        return self.config.retry == "failed" and known.state.value == "ok"


def prepare(config: SweepConfig, project: Project, station: Station, *, timed: bool = True) -> Prepared:
    """Load the family, ask the station's worker for devices, and plan.

    Args:
        station: is told its devices.
        timed: take the measures that the configuration names; else the trials are only checked.

    Raises:
        UsageError: the selection cannot be carried out; nothing has been stored.
    """
    family = get_family(config.family, project.kernel_folders)
    if config.baseline:
        family.variant(config.baseline)
    selection = Selection(
        family=config.family,
        variants=config.variants,
        problem=config.problem,
        tune=config.tune if not config.search.name else find_whole_space(family, config),
        presets=config.presets,
        optional=config.optional,
    )
    backends: tuple[str, ...] = tuple(
        dict.fromkeys(variant.backend for variant in read_selection(family, selection).variants)
    )
    by_backend: dict[str, Mapping[Measure, str]] = {
        backend: methods(config.measure, backend) if timed else {} for backend in backends
    }
    untimed = {backend for backend in backends if timed and not by_backend[backend]}
    devices = find_devices(config, station.runner, tuple(backend for backend in backends if backend not in untimed))
    modes = " and ".join(config.measure.modes)
    station.devices = dict(devices)
    devices |= {
        backend: Unavailable(f"the {backend} back end has no {modes} time", "measure.modes=[cold]")
        for backend in untimed
    }
    planned = plan(family, selection, devices)
    if timed:
        planned = replace(planned, notes=(*planned.notes, *_ignored(config, devices)))
    if not config.dry_run:
        planned.require_runnable()
    flat = {f"{backend}.{measure}": value for backend, table in by_backend.items() for measure, value in table.items()}
    if config.retry:  # a sweep that was interrupted goes on under the same rule alone
        flat["retry"] = config.retry
    if config.search.name:  # and so is a search
        flat["search"] = repr(config.search)
    return Prepared(config, family, planned, devices, by_backend, plan_hash(planned, flat))


def _ignored(config: SweepConfig, devices: Mapping[str, DeviceFacts | Unavailable]) -> Iterator[str]:
    """Yield a note on each setting that none of the back ends that can run here heeds."""
    usable = [backend for backend, device in devices.items() if isinstance(device, DeviceFacts)]
    for name in ignored_settings(config.measure, usable):
        yield f"measure.{name} has no effect on {' and '.join(usable)} variants"


def find_whole_space(family: Family, config: SweepConfig) -> Axes:
    """Return what a search chooses from: of tunables that it is not told, every value instead of the default."""
    variants = select_variants(family, config.variants)
    return {**{tunable.name: (ALL,) for variant in variants for tunable in variant.tunables}, **config.tune}


def find_devices(
    config: SweepConfig, runner: JobRunner, backends: tuple[str, ...]
) -> dict[str, DeviceFacts | Unavailable]:
    """Return each back end's device, or why there is none or none is wanted."""
    devices: dict[str, DeviceFacts | Unavailable] = {}
    for backend in backends:  # one at a time: a driver that takes the worker down costs its own back end alone
        if backend not in config.device.backends:
            devices[backend] = Unavailable(f"device.backends leaves {backend} out", f"device.backends=[{backend}]")
            continue
        try:
            devices |= runner.worker.describe((backend,)).devices
        except WorkerError as error:
            runner.replace_worker()
            devices[backend] = Unavailable(f"the worker could not open it: {error}")
    return devices
