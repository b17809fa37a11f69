"""From a configuration to planned trials: the family, its devices, the methods, and what is stored of each trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cuprof.config.model import SweepConfig
from cuprof.engine.enrolment import enroll
from cuprof.engine.station import Station
from cuprof.family import Family
from cuprof.family.extension import Extension
from cuprof.family.loader import get_family
from cuprof.measure.method import ignored_settings, methods
from cuprof.plan import Plan, Selection, plan, plan_hash
from cuprof.plan.selection import read_selection
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
        is_shared: whether other processes may do a part of it.
    """

    config: SweepConfig
    family: Family
    plan: Plan
    devices: Mapping[str, DeviceFacts | Unavailable]
    methods: Mapping[str, Mapping[Measure, str]]
    hash: str
    extension: Extension | None = None
    is_shared: bool = True

    def stored(self, store: Store, trials: Sequence[Trial] | None = None) -> dict[str, StoredTrial]:
        """Return what the store has of the trials, all or some, by identity."""
        found: dict[str, StoredTrial] = {}
        for backend, wanted in self.methods.items():
            chosen = self.plan.trials if trials is None else trials
            identities = [trial.identity for trial in chosen if trial.backend == backend]
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


def prepare(config: SweepConfig, project: Project, stations: list[Station], *, timed: bool = True) -> Prepared:
    """Load the family, ask the stations' workers for devices, and plan.

    Args:
        stations: are told their devices; those without one that can take part are taken out.
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
        tune=config.tune,
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
    notes = enroll(config, stations, tuple(backend for backend in backends if backend not in untimed))
    devices = dict(stations[0].devices)
    modes = " and ".join(config.measure.modes)
    devices |= {
        backend: Unavailable(f"the {backend} back end has no {modes} time", "measure.modes=[cold]")
        for backend in untimed
    }
    planned = plan(family, selection, devices)
    if timed:
        planned = replace(planned, notes=(*planned.notes, *_ignored(config, devices), *notes))
    if not config.dry_run:
        planned.require_runnable()
    flat = {f"{backend}.{measure}": value for backend, table in by_backend.items() for measure, value in table.items()}
    if config.retry:  # a sweep that was interrupted goes on under the same rule alone
        flat["retry"] = config.retry
    return Prepared(config, family, planned, devices, by_backend, plan_hash(planned, flat))


def _ignored(config: SweepConfig, devices: Mapping[str, DeviceFacts | Unavailable]) -> Iterator[str]:
    """Yield a note on each setting that none of the back ends that can run here heeds."""
    usable = [backend for backend, device in devices.items() if isinstance(device, DeviceFacts)]
    for name in ignored_settings(config.measure, usable):
        yield f"measure.{name} has no effect on {' and '.join(usable)} variants"
