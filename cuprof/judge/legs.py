"""Short sweeps in turns: the baseline, a candidate, the baseline, …, each in a process of its own.

Isolated trials cannot be interleaved. With turns, a drift of the machine shows as a drift between the baseline's legs,
and the baseline itself shows how much a time varies from process to process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import Outcome, Trial
from cuprof.engine.executor import Executor
from cuprof.engine.observer import Observer
from cuprof.engine.planning import Prepared
from cuprof.engine.recorder import Recorder
from cuprof.engine.running import Run
from cuprof.families import Family
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.contenders import Contender, Devices
from cuprof.judge.referee import BorderExecutor, Kept
from cuprof.plan import Plan, Selection, plan_hash
from cuprof.sandbox.settings import Sandbox
from cuprof.store import Store
from cuprof.worker.messages import WorkerSettings
from cuprof.worker.method import methods

PURPOSE = "judging"


@dataclass(frozen=True)
class Course(Observer):
    """Run legs one after another into one database, and forward the events that concern all of them.

    Args:
        config: how all of them are timed.
        server: starts processes beyond the border.
        observer: receives the forwarded events.
        kept: processes beyond the border, from turn to turn.
        logs: identity → the log of a failed trial; filled by `run`.
        told: notes already forwarded.
    """

    config: SweepConfig
    family: Family
    devices: Devices
    project: Project
    store: Store
    server: ForkServer
    observer: Observer
    kept: Kept = field(default_factory=Kept)
    logs: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def run(self, contender: Contender, sandbox: Sandbox | None) -> int:
        """Check and time trials in new workers; return the number of their sweep."""
        origin, backend, over_border = contender.origin, contender.backend, contender.runs_on_host
        # candidates cannot write there, so its code needs no guard
        family = replace(self.family, folder=origin.folder, path=origin.path, origin=origin, code={})
        selection = Selection(family.name, tuple(dict.fromkeys(trial.variant for trial in contender.trials)))
        plan = Plan(family, selection, contender.trials)
        by_measure = methods(self.config.measure, backend, over_border=over_border)
        leg = Prepared(
            config=replace(self.config, variants=selection.variants, baseline="", purpose=PURPOSE),
            family=family,
            plan=plan,
            devices=self.devices,
            methods={backend: by_measure},
            hash=plan_hash(plan, {str(measure): value for measure, value in by_measure.items()}),
            extension=contender.extension,
            is_shared=False,
            reuses=False,  # a leg never reuses another leg's results
            remembers=False,  # a stranger's process must not change the project through files it reports
        )
        settings, limits = WorkerSettings(self.config.device.numbers()), self.config.limits
        with (
            BorderExecutor(settings, limits, self.family, sandbox, self.devices, self.server, self.kept)
            if over_border
            else Executor(settings, limits, sandbox, self.devices)
        ) as executor:
            recorder = Recorder(leg, self.project, self.store, [executor], self)
            return Run(recorder, self.project).run().sweep_id

    def close(self) -> None:
        """End the processes that wait for another turn."""
        self.kept.close()

    def trial_started(self, trial: Trial, phase: str) -> None:
        self.observer.trial_started(trial, phase)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Keep the log of a failed trial, and forward the event."""
        if outcome.log:
            self.logs[outcome.identity] = outcome.log
        if any(timing.details.get("launches_included") for timing in outcome.timings):
            self.note(f"{trial.label}: no CUDA graph can be made of it, so its time includes the launches")
        self.observer.trial_finished(trial, outcome)

    def note(self, text: str) -> None:
        """Forward a note once."""
        if text not in self.told:
            self.told.add(text)
            self.observer.note(text)
