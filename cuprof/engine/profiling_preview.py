"""What a collection would do: which trials it would profile, which it would leave alone, and why."""

from __future__ import annotations

from dataclasses import replace

from cuprof.config.model import SweepConfig
from cuprof.engine.planning import prepare
from cuprof.engine.profiling import find_settled, reason_to_skip
from cuprof.engine.sweep import Preview, PreviewRow, open_existing, open_stations
from cuprof.profiling.contract import Profiler
from cuprof.project import Project
from cuprof.records import Outcome, State, StoredProfile, Trial


def preview_profiling(config: SweepConfig, project: Project, profiler: Profiler) -> Preview:
    """Return the trials of a collection and what is stored of each, without running or storing anything.

    Raises:
        UsageError: the selection cannot be carried out.
    """
    request = profiler.make_request(config)
    with open_stations(config) as fleet:
        prepared = prepare(config, project, fleet.stations, timed=False)
    trials = prepared.plan.trials
    settled: dict[str, StoredProfile] = {}
    outcomes: dict[str, Outcome] = {}
    with open_existing(config, project) as store:
        if store is not None:
            settled = find_settled(trials, request, store, config.retry)
            stored = prepared.stored(store)
            outcomes = {identity: Outcome(identity, found.state, found.message) for identity, found in stored.items()}
    rows = [_row(trial, outcomes.get(trial.identity), settled.get(trial.identity), profiler) for trial in trials]
    rows += [PreviewRow(exclusion.label, "", "excluded", exclusion.reason) for exclusion in prepared.plan.excluded]
    return Preview(tuple(rows), prepared.plan.notes)


def _row(trial: Trial, outcome: Outcome | None, settled: StoredProfile | None, profiler: Profiler) -> PreviewRow:
    row = PreviewRow(trial.label, trial.identity, "missing")
    # What has not been checked yet would be, so it is no reason to skip.
    reason = reason_to_skip(trial, {trial.identity: outcome or Outcome(trial.identity, State.OK)}, profiler)
    if trial.unavailable is not None:
        return replace(row, state="unavailable", reason=reason)
    if reason:
        return replace(row, state="skipped", reason=reason)
    if settled is not None:
        return replace(row, state="stored", reason="" if settled.state is State.OK else settled.state.value)
    return row
