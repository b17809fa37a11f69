"""Preview a sweep or a collection: the trials it would run, those it would skip, and why."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from cuprof.config.model import SweepConfig
from cuprof.core.errors import EmptyStoreError
from cuprof.core.project import Project
from cuprof.core.records import Outcome, State, StoredProfile, StoredTrial, Trial
from cuprof.engine.devices import open_executors
from cuprof.engine.planning import prepare
from cuprof.engine.profiling import find_settled, reason_to_skip
from cuprof.ncu.setting import make_request, settle
from cuprof.store.store import Store


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


def preview(config: SweepConfig, project: Project, *, profiling: bool = False) -> Preview:
    """Return the trials of a sweep and the stored state of each, without running or storing anything.

    Args:
        profiling: those of a collection, which profiles them and times nothing.

    Raises:
        UsageError: the selection cannot be carried out.
    """
    request = make_request(settle(config.ncu)) if profiling else None
    with open_executors(config) as executors:
        prepared = prepare(config, project, executors, timed=not profiling)
    known, profiled = dict[str, StoredTrial](), dict[str, StoredProfile]()
    url = config.store.url or project.database_url
    with suppress(EmptyStoreError), Store.open(url, create=False, read_only=True) as store:
        known = prepared.stored(store)
        profiled = find_settled(prepared.plan.trials, request, store, config.retry) if request else {}

    def make_row(trial: Trial) -> PreviewRow:
        stored = known.get(trial.identity)
        checked = stored if prepared.is_settled(trial, stored) else None
        found, reason = (profiled.get(trial.identity) if profiling else checked), ""
        if profiling:  # what is not settled would be checked first
            reason = reason_to_skip(trial, checked or Outcome(trial.identity, State.OK))
        elif checked is None:
            reason = str(trial.unavailable or "")
        if reason:
            return PreviewRow(trial.label, trial.identity, "unavailable" if trial.unavailable else "skipped", reason)
        if found is None:
            return PreviewRow(trial.label, trial.identity, "missing")
        return PreviewRow(trial.label, trial.identity, "stored", "" if found.state is State.OK else found.state.value)

    excluded = (PreviewRow(each.label, "", "excluded", each.reason) for each in prepared.plan.excluded)
    return Preview((*map(make_row, prepared.plan.trials), *excluded), prepared.plan.notes)
