"""Short sweeps in turns: the baseline, a candidate, the baseline, …, each in a process of its own.

What is isolated cannot be timed interleaved. In turns, a drift of the machine shows as one between the baseline's legs,
and how much a time varies from process to process is seen on the baseline itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import Outcome, Trial
from cuprof.engine.fleet import open_fleet
from cuprof.engine.ledger import Ledger
from cuprof.engine.observer import Observer
from cuprof.engine.planning import Prepared
from cuprof.engine.runner import JobRunner
from cuprof.engine.station import Station
from cuprof.engine.sweep import Sweep
from cuprof.families import Family
from cuprof.families.candidate import Extension
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.contenders import Devices
from cuprof.plan import Plan, Selection, plan_hash
from cuprof.sandbox.settings import Sandbox
from cuprof.store import Store
from cuprof.store.trials import StoredTrial
from cuprof.worker.messages import WorkerSettings
from cuprof.worker.method import methods

PURPOSE = "judging"


class _Leg(Prepared):
    """A planned sweep that measures everything anew, however often it has been measured."""

    def stored(self, store: Store, trials: Sequence[Trial] | None = None) -> dict[str, StoredTrial]:
        """Return nothing: no leg takes another one's results for its own."""
        return {}


@dataclass(frozen=True)
class Course(Observer):
    """Run legs one after another into one database; of each it hears what matters to all of them.

    Args:
        config: how all of them are timed.
        observer: told what is not of one leg alone.
        logs: identity → what there is to read of a trial that failed; filled by `run`.
        told: notes that have been passed on.
    """

    config: SweepConfig
    family: Family
    devices: Devices
    project: Project
    store: Store
    observer: Observer
    logs: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def run(
        self,
        trials: Sequence[Trial],
        origin: AnyOrigin,
        extension: Extension | None = None,
        sandbox: Sandbox | None = None,
    ) -> int:
        """Check and time trials in new workers; return the number of their sweep.

        Args:
            origin: where the workers load the family from.
            extension: what they add to it.
            sandbox: what they are shut into.
        """
        # what is judged cannot write there, so its code needs no guard
        family = replace(self.family, folder=origin.folder, path=origin.path, origin=origin, code={})
        backend = trials[0].backend
        selection = Selection(family.name, tuple(dict.fromkeys(trial.variant for trial in trials)))
        plan = Plan(family, selection, tuple(trials))
        by_measure = methods(self.config.measure, backend)
        config = replace(self.config, variants=selection.variants, baseline="", purpose=PURPOSE)
        leg = _Leg(
            config=config,
            family=family,
            plan=plan,
            devices=self.devices,
            methods={backend: by_measure},
            hash=plan_hash(plan, {str(measure): value for measure, value in by_measure.items()}),
            extension=extension,
            is_shared=False,
            remembers=False,  # the project stays as it is, whatever a stranger's process tells of files
        )
        runner = JobRunner(WorkerSettings(config.device.numbers()), config.limits, sandbox=sandbox)
        with open_fleet([Station(runner, self.devices)]) as fleet:
            return Sweep(Ledger(leg, self.project, self.store, fleet, self), self.project).run().sweep_id

    def trial_started(self, trial: Trial, phase: str) -> None:
        """Pass it on."""
        self.observer.trial_started(trial, phase)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Keep the log of what failed, and pass it on."""
        if outcome.log:
            self.logs[outcome.identity] = outcome.log
        self.observer.trial_finished(trial, outcome)

    def note(self, text: str) -> None:
        """Pass on what no leg before has told."""
        if text not in self.told:
            self.told.add(text)
            self.observer.note(text)
