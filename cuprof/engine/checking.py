"""Check the trials of a selection without timing them, for what comes after: profiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cuprof.config.model import SweepConfig
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.engine.sweep import Sweep, SweepResult, open_stations
from cuprof.project import Project
from cuprof.records import Outcome, State, Trial
from cuprof.store import Store


@dataclass(frozen=True)
class Checked:
    """The trials of a selection and what checking them came to.

    Args:
        trials: every planned trial, also those that were not checked.
        outcomes: by identity, of the trials on a profilable device.
        result: the sweep that they were enlisted in and checked by, with those that failed.
    """

    trials: tuple[Trial, ...]
    outcomes: Mapping[str, Outcome]
    result: SweepResult


def check_trials(
    config: SweepConfig, project: Project, store: Store, observer: Observer, backends: tuple[str, ...]
) -> Checked:
    """Check those trials of a selection that run on the named back ends and are not known to be right or wrong.

    Everything is built on the way, so the build cache holds it afterwards.

    Raises:
        UsageError: the selection cannot be carried out; nothing has been stored.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    with open_stations(config) as fleet:
        prepared = prepare(config, project, fleet.stations, timed=False)
        planned = prepared.plan.trials
        wanted = tuple(trial for trial in planned if trial.backend in backends)
        part = replace(prepared, plan=replace(prepared.plan, trials=wanted))
        result = Sweep(part, project, store, fleet, observer).run()
    known = part.stored(store)
    outcomes = {
        identity: Outcome(identity, stored.state, stored.message)
        for identity, stored in known.items()
        if stored.state is not State.PLANNED
    }
    return Checked(planned, outcomes, result)
