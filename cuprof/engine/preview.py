"""Preview a sweep or a collection: the trials it would run, those it would skip, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from cuprof.config.model import SweepConfig
from cuprof.core.errors import EmptyStoreError
from cuprof.core.project import Project
from cuprof.core.records import Outcome, State, Trial
from cuprof.engine.devices import open_executors
from cuprof.engine.planning import Prepared, prepare
from cuprof.engine.profiling import find_settled, reason_to_skip
from cuprof.ncu.setting import make_request
from cuprof.store import Store
from cuprof.store.connection import database_file, parse_url


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

    def make_row(trial: Trial) -> PreviewRow:
        found = known.get(trial.identity)
        if found is not None and prepared.is_settled(trial, found):
            return _stored_row(trial, found.state)
        if trial.unavailable:
            return PreviewRow(trial.label, trial.identity, "unavailable", str(trial.unavailable))
        return PreviewRow(trial.label, trial.identity, "missing")

    return _preview(prepared, make_row)


def preview_profiling(config: SweepConfig, project: Project) -> Preview:
    """Return the trials of a collection and the stored state of each, without running or storing anything.

    Raises:
        UsageError: the selection cannot be carried out.
    """
    request = make_request(config.ncu)
    with open_executors(config) as executors:
        prepared = prepare(config, project, executors, timed=False)
    with _open_existing(config, project) as store:
        settled = find_settled(prepared.plan.trials, request, store, config.retry) if store is not None else {}
        known = prepared.stored(store) if store is not None else {}

    def make_row(trial: Trial) -> PreviewRow:
        found, outcome = known.get(trial.identity), Outcome(trial.identity, State.OK)
        if found is not None and prepared.is_settled(trial, found):  # an unsettled one would be checked first
            outcome = Outcome(trial.identity, found.state, found.message)
        reason = reason_to_skip(trial, {trial.identity: outcome})
        if trial.unavailable is not None or reason:
            return PreviewRow(trial.label, trial.identity, "unavailable" if trial.unavailable else "skipped", reason)
        if trial.identity in settled:
            return _stored_row(trial, settled[trial.identity].state)
        return PreviewRow(trial.label, trial.identity, "missing")

    return _preview(prepared, make_row)


def _stored_row(trial: Trial, state: State) -> PreviewRow:
    return PreviewRow(trial.label, trial.identity, "stored", "" if state is State.OK else state.value)


def _preview(prepared: Prepared, make_row: Callable[[Trial], PreviewRow]) -> Preview:
    excluded = (PreviewRow(each.label, "", "excluded", each.reason) for each in prepared.plan.excluded)
    return Preview((*map(make_row, prepared.plan.trials), *excluded), prepared.plan.notes)


@contextmanager
def _open_existing(config: SweepConfig, project: Project) -> Iterator[Store | None]:
    """Open the database of a configuration for reading, or give None where there is none yet."""
    url = config.store.url or project.database_url
    file = database_file(parse_url(url))
    with ExitStack() as stack:
        store = None
        if file is None or file.exists():
            with suppress(EmptyStoreError):
                store = stack.enter_context(Store.open(url, create=False, read_only=True))
        yield store
