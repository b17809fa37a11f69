"""Short sweeps in turns: the baseline, a candidate, the baseline, …, each in a process of its own.

Isolated trials cannot be interleaved. With turns, a drift of the machine shows as a drift between the baseline's legs,
and the baseline itself shows how much a time varies from process to process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cuprof.core.project import Project
from cuprof.core.records import Outcome, State, Trial
from cuprof.engine.executor import Executor
from cuprof.engine.observer import Observer
from cuprof.engine.planning import Prepared
from cuprof.engine.recorder import Recorder
from cuprof.engine.running import Run, SweepResult
from cuprof.judge.ahead import Ahead
from cuprof.judge.contenders import Contender
from cuprof.judge.referee import Border, BorderExecutor
from cuprof.store.store import Store

End = tuple[Trial, Outcome]
"""A trial, and how it ended."""


@dataclass(frozen=True)
class Course(Observer):
    """Run legs one after another into one database, and forward the events that concern all of them.

    Args:
        ahead: says how all of them are timed, and has processes of those that come next.
        border: has processes beyond it, from turn to turn.
        observer: receives the forwarded events.
        ended: identity → how each trial of the current leg ended.
        told: notes already forwarded, without what is in parentheses.
    """

    ahead: Ahead
    project: Project
    store: Store
    border: Border
    observer: Observer
    ended: dict[str, Outcome] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def run(self, contender: Contender, *, alone: bool = False) -> tuple[int, list[End]]:
        """Check and time trials in new workers; return the number of their sweep, and the trials that did not end well.

        Args:
            alone: the leg could not be prepared beside others.
        """
        self.ended.clear()
        if leg := self.ahead.take(contender):
            result = self._run(leg.sweep, leg.executor)
        else:
            with self._make_executor(contender) as executor:
                result = self._run(self.ahead.make_sweep(contender), executor)
            if alone and not result.failed:
                self.ahead.is_on = False
        ends = [(trial, self.ended[trial.identity]) for trial in contender.trials if trial.identity in self.ended]
        return result.sweep_id, [(trial, outcome) for trial, outcome in ends if outcome.state is not State.OK]

    def _run(self, sweep: Prepared, executor: Executor) -> SweepResult:
        return Run(Recorder(sweep, self.project, self.store, [executor], self)).run()

    def _make_executor(self, contender: Contender) -> Executor:
        if not contender.runs_on_host:
            return self.ahead.make_executor(contender)
        return BorderExecutor(self.border, self.ahead.confine(contender))

    def trial_started(self, trial: Trial, phase: str) -> None:
        self.observer.trial_started(trial, phase)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Keep how a trial ended, and forward the event."""
        self.ended[trial.identity] = outcome
        if any(timing.details.get("launches_included") for timing in outcome.timings):
            self.note(f"{trial.label}: no CUDA graph can be made of it, so its time includes the launches")
        self.observer.trial_finished(trial, outcome)

    def note(self, text: str) -> None:
        """Forward a note once, whatever is in its parentheses: the load of a busy host is another one at each leg."""
        if (kind := re.sub(r"\(.*?\)", "", text)) not in self.told:
            self.told.add(kind)
            self.observer.note(text)
