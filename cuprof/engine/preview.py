"""Preview a sweep or a collection: the trials it would run, those it would skip, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cuprof.config.model import SweepConfig
from cuprof.core.errors import EmptyStoreError
from cuprof.core.project import Project
from cuprof.core.records import Outcome, State, StoredProfile, Trial
from cuprof.engine.devices import open_executors
from cuprof.engine.planning import Prepared, prepare
from cuprof.engine.profiling import find_settled, reason_to_skip
from cuprof.ncu.setting import make_request
from cuprof.store import Store
from cuprof.store.connection import database_file, parse_url
from cuprof.store.trials import StoredTrial


@dataclass(frozen=True)
class PreviewRow:
    """One trial of a dry run, without running anything."""

    label: str
    identity: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class Preview:
    """The trials and notes of a dry run."""

    rows: tuple[PreviewRow, ...]
    notes: tuple[str, ...] = ()


def preview_sweep(config: SweepConfig, project: Project) -> Preview:
    """Return the trials of a sweep and the stored state of each, without running or storing anything."""
    with open_executors(config) as executors:
        prepared = prepare(config, project, executors)
    with _open_existing(config, project) as store:
        known = prepared.stored(store) if store is not None else {}
    rows = [_sweep_row(prepared, trial, known.get(trial.identity)) for trial in prepared.plan.trials]
    return _preview(rows, prepared)


def preview_profiling(config: SweepConfig, project: Project) -> Preview:
    """Return the trials of a collection and the stored state of each, without running or storing anything.

    Raises:
        UsageError: the selection cannot be carried out.
    """
    request = make_request(config.ncu)
    with open_executors(config) as executors:
        prepared = prepare(config, project, executors, timed=False)
    trials = prepared.plan.trials
    settled: dict[str, StoredProfile] = {}
    outcomes: dict[str, Outcome] = {}
    with _open_existing(config, project) as store:
        if store is not None:
            settled = find_settled(trials, request, store, config.retry)
            stored = prepared.stored(store)
            # An unsettled trial would be checked first, so that is not a reason to skip it.
            outcomes = {
                trial.identity: Outcome(trial.identity, found.state, found.message)
                for trial in trials
                if (found := stored.get(trial.identity)) is not None and prepared.is_settled(trial, found)
            }
    rows = [_profiling_row(trial, outcomes.get(trial.identity), settled.get(trial.identity)) for trial in trials]
    return _preview(rows, prepared)


@contextmanager
def _open_existing(config: SweepConfig, project: Project) -> Iterator[Store | None]:
    """Open the database of a configuration for reading, or give None where there is none yet."""
    url = config.store.url or project.database_url
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


def _preview(rows: Sequence[PreviewRow], prepared: Prepared) -> Preview:
    excluded = (PreviewRow(each.label, "", "excluded", each.reason) for each in prepared.plan.excluded)
    return Preview((*rows, *excluded), prepared.plan.notes)


def _sweep_row(prepared: Prepared, trial: Trial, known: StoredTrial | None) -> PreviewRow:
    if prepared.is_settled(trial, known) and known is not None:
        return PreviewRow(trial.label, trial.identity, "stored", "" if known.state is State.OK else known.state.value)
    if trial.unavailable:
        return PreviewRow(trial.label, trial.identity, "unavailable", str(trial.unavailable))
    return PreviewRow(trial.label, trial.identity, "missing")


def _profiling_row(trial: Trial, outcome: Outcome | None, settled: StoredProfile | None) -> PreviewRow:
    row = PreviewRow(trial.label, trial.identity, "missing")
    reason = reason_to_skip(trial, {trial.identity: outcome or Outcome(trial.identity, State.OK)})
    if trial.unavailable is not None:
        return replace(row, state="unavailable", reason=reason)
    if reason:
        return replace(row, state="skipped", reason=reason)
    if settled is not None:
        return replace(row, state="stored", reason="" if settled.state is State.OK else settled.state.value)
    return row
