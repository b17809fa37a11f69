"""Collect counters for trials: what is stored is left alone, the rest goes through ncu in batches, trial by trial."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from cuprof.engine.observer import Observer
from cuprof.errors import ProfilerError
from cuprof.ncu.batch import run_batch
from cuprof.ncu.executable import list_metric_names
from cuprof.ncu.head_start import Batch
from cuprof.ncu.job import Phase, Progress
from cuprof.ncu.metrics import catalog
from cuprof.ncu.setting import Setting
from cuprof.records import FAILED, Conditions, Outcome, Profile, State, StoredProfile, Trial


class ProfileStore(Protocol):
    """What a collection needs of the store."""

    def profiled(
        self, identities: Sequence[str], conditions: Conditions, metrics: Collection[str]
    ) -> dict[str, StoredProfile]:
        """Return what is stored of those trials that were profiled for all of the metrics, failures included."""

    def record_profile(self, sweep_id: int | None, profile: Profile) -> int:
        """Write one profile in one transaction."""


@dataclass(frozen=True)
class Failure:
    """A trial that failed under ncu, now or, where that was left as it is, in an earlier collection."""

    identity: str
    label: str
    state: State
    message: str
    is_stored: bool = False


@dataclass(frozen=True)
class CollectResult:
    """What a collection came to.

    Attributes:
        profiles: those made now, in the order they were stored.
        reused: identities of the trials that were profiled before.
        failures: of trials that failed under ncu, earlier ones included.
        skipped: identity → why a trial was not profiled; nothing is stored for these.
        missing: metrics asked for that the chip does not have → why.
    """

    profiles: tuple[Profile, ...]
    reused: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Return 0 where every metric of every trial is there, else 1."""
        return 1 if self.failures or self.missing else 0


def collect(
    trials: Sequence[Trial],
    outcomes: Mapping[str, Outcome],
    setting: Setting,
    *,
    store: ProfileStore,
    sweep_id: int | None,
    observer: Observer,
    retry: str = "",
    ahead: Batch | None = None,
) -> CollectResult:
    """Profile the trials whose counters are not stored yet.

    Every trial's profile is stored as soon as its ncu process has ended; interrupted, the same call goes on with
    what is missing.

    Args:
        trials: already enlisted in the store.
        outcomes: identity → what checking the trial came to. Only trials known to be right are profiled.
        ahead: an ncu process of this setting that already waits, for the first batch.
        retry: "" leaves trials that failed under ncu as stored, "failed" tries those again, "all" profiles everything.

    Raises:
        ProfilerError: ncu cannot work here at all; what was stored until then stays.
        KeyboardInterrupt: after the trials that were through have been stored.
    """
    _ = setting.executable.version  # raises where ncu does not run or is too old
    skipped = {trial.identity: reason for trial in trials if (reason := reason_to_skip(trial, outcomes))}
    right = [trial for trial in trials if trial.identity not in skipped]
    settled = find_settled(right, setting.collection.conditions, setting.requested, store, retry)
    observer.started(len(right), len(settled))
    todo = [trial for trial in right if trial.identity not in settled]
    run = _Run(setting, store, sweep_id, observer, ahead)
    for device_trials in _by_device(todo):
        for batch in _chunks(device_trials, setting.batch):
            run.profile(batch)
    if sweep_id is not None:
        observer.finished(sweep_id)
    earlier = [
        Failure(trial.identity, trial.label, found.state, found.message, is_stored=True)
        for trial in right
        if (found := settled.get(trial.identity)) is not None and found.state in FAILED
    ]
    now = [
        Failure(profile.identity or "", profile.name, profile.state, profile.message)
        for profile in run.profiles
        if profile.state in FAILED
    ]
    missing = {name: reason for found in settled.values() for name, reason in found.missing.items()}
    return CollectResult(
        tuple(run.profiles), tuple(settled), (*earlier, *now), skipped, {**missing, **run.setting.missing}
    )


def find_settled(
    trials: Sequence[Trial],
    conditions: Conditions,
    requested: Collection[str],
    store: ProfileStore,
    retry: str = "",
) -> dict[str, StoredProfile]:
    """Return, in the order of the trials, what is stored of those that need no profiling."""
    if retry == "all":
        return {}
    stored = store.profiled([trial.identity for trial in trials], conditions, requested)
    return {
        trial.identity: stored[trial.identity]
        for trial in trials
        if trial.identity in stored and not (retry == "failed" and stored[trial.identity].state in FAILED)
    }


def reason_to_skip(trial: Trial, outcomes: Mapping[str, Outcome]) -> str:
    """Return why a trial is not profiled, given what checking came to, or an empty text."""
    if trial.backend != "cuda":
        return f"{trial.backend} variants have no hardware counters that Nsight Compute reads"
    if trial.unavailable is not None:
        return str(trial.unavailable)
    outcome = outcomes.get(trial.identity)
    if outcome is None or outcome.state is State.PLANNED:
        return "it has not been checked"
    if outcome.state is not State.OK:
        return f"only right results are profiled, and this one is {outcome.state.value}: {outcome.message}"
    return ""


class _Run:
    """Hold what changes while a collection goes on: the setting (metrics fall away) and the profiles made."""

    def __init__(
        self,
        setting: Setting,
        store: ProfileStore,
        sweep_id: int | None,
        observer: Observer,
        ahead: Batch | None,
    ) -> None:
        self.setting, self.profiles = setting, list[Profile]()
        self._ahead = ahead
        self._store, self._sweep_id, self._observer = store, sweep_id, observer

    def profile(self, trials: Sequence[Trial]) -> None:
        """Run a batch, and again without the trials that brought it down, until every trial is decided."""
        by_identity = {trial.identity: trial for trial in trials}
        left = tuple(trials)
        while left:
            ahead, self._ahead = self._ahead, None
            result = run_batch(left, self.setting, self._shows(by_identity), ahead)
            if result.unknown_metrics:
                self._leave_out(result.unknown_metrics)
            for trial, profile in ((by_identity[found.identity or ""], found) for found in result.profiles):
                stored = replace(profile, missing=self.setting.missing)
                self._store.record_profile(self._sweep_id, stored)
                self.profiles.append(stored)
                self._observer.trial_finished(trial, _outcome(stored))
            if result.interrupted:
                raise KeyboardInterrupt
            left = result.remaining

    def _leave_out(self, metrics: Sequence[str]) -> None:
        before = self.setting.missing
        known = list_metric_names(self.setting.executable) or [metric.name for metric in catalog()]
        self.setting = self.setting.without(metrics, known)
        left = self.setting.collection
        if not (left.metrics or left.section_set or left.sections):
            raise ProfilerError(f"nothing is left to collect: {'; '.join(self.setting.missing.values())}")
        for name, reason in self.setting.missing.items():
            if name not in before:
                self._observer.note(f"{reason} The other metrics are collected.")

    def _shows(self, trials: Mapping[str, Trial]) -> Callable[[Progress], None]:
        shown: list[str] = []

        def show(progress: Progress) -> None:
            current = progress.open
            if current is not None and current in trials and shown[-1:] != [current]:
                shown.append(current)
                self._observer.trial_started(trials[current], "profile")

        return show


def _outcome(profile: Profile) -> Outcome:
    return Outcome(
        profile.identity or "",
        profile.state,
        profile.message,
        profile.log,
        phase=Phase.LAUNCHING.value,
        started_at=profile.started_at,
        duration_ns=profile.duration_ns,
    )


def _by_device(trials: Sequence[Trial]) -> Iterator[list[Trial]]:
    devices: dict[int, list[Trial]] = {}
    for trial in trials:
        devices.setdefault(trial.device.index if trial.device else 0, []).append(trial)
    yield from devices.values()


def _chunks(trials: Sequence[Trial], size: int) -> Iterator[tuple[Trial, ...]]:
    remaining = iter(trials)
    while chunk := tuple(islice(remaining, size)):
        yield chunk
