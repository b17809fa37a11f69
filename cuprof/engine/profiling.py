"""Collect counters for trials: check each one, skip those already stored, and profile the rest in batches.

Importing this is cheap, as the profiler's program is started first: store and worker are imported while it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TYPE_CHECKING

from cuprof.core.records import FAILED, DeviceFacts, Outcome, Profile, State, StoredProfile, StoredTrial, Trial
from cuprof.engine.observer import Observer
from cuprof.ncu import BACKENDS, TITLE
from cuprof.ncu.task import Step

if TYPE_CHECKING:
    from cuprof.ncu.collector import Collector
    from cuprof.ncu.setting import Request
    from cuprof.store.store import Store


@dataclass(frozen=True)
class CollectResult:
    """The result of a collection.

    Attributes:
        profiles: those made now, in the order they were stored.
        failures: trials that failed under the profiler, now or, where that was left as it is, in an earlier collection.
        skipped: identity → why a trial was not profiled; nothing is stored for these.
        missing: requested metrics that the device lacks → why.
    """

    profiles: tuple[Profile, ...]
    failures: tuple[tuple[Trial, Profile | StoredProfile], ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Return 0 if every trial has every metric, else 1."""
        return 1 if self.failures or self.missing else 0


@dataclass(frozen=True)
class Profiling:
    """Profile trials, and store their counters.

    Args:
        hold: keeps other cuprof processes off a device during a batch, as `DeviceLocks.hold` does. Their launches would
            otherwise appear in the counters, and replayed launches in their times.
    """

    collector: Collector
    store: Store
    sweep_id: int | None
    observer: Observer
    hold: Callable[[DeviceFacts], AbstractContextManager[None]]

    def collect(
        self, trials: Sequence[Trial], outcomes: Mapping[str, Outcome | StoredTrial], retry: str = ""
    ) -> CollectResult:
        """Profile the trials whose counters are not stored yet.

        Each profile is stored as soon as its process has ended. After an interruption, the same call continues with the
        missing ones.

        Args:
            trials: already enlisted in the store.
            outcomes: identity → the check's outcome. Only right trials are profiled.
            retry: "" leaves trials that failed under the profiler as stored, "failed" tries those again, "all" profiles
                everything.

        Raises:
            ProfilerError: the profiler cannot work here at all; profiles stored until then stay.
            KeyboardInterrupt: after the finished trials have been stored.
        """
        collector = self.collector
        collector.check()
        reasons = {trial.identity: reason_to_skip(trial, outcomes.get(trial.identity)) for trial in trials}
        skipped = {identity: reason for identity, reason in reasons.items() if reason}
        right = [trial for trial in trials if trial.identity not in skipped]
        settled = find_settled(right, collector.setting.request, self.store, retry)
        self.observer.started(len(right), settled)
        todo = [trial for trial in right if trial.identity not in settled]
        made, most = list[tuple[Trial, Profile]](), collector.setting.collection.batch
        for _, of_device in groupby(sorted(todo, key=_device_of), _device_of):
            while batch := list(islice(of_device, most)):
                made += self._profile(batch)
        if self.sweep_id is not None:
            self.observer.finished(self.sweep_id)
        ended: list[tuple[Trial, Profile | StoredProfile]] = [
            (trial, settled[trial.identity]) for trial in right if trial.identity in settled
        ]
        failures = tuple(each for each in (*ended, *made) if each[1].state in FAILED)
        missing = {name: reason for found in settled.values() for name, reason in found.missing.items()}
        missing |= collector.setting.missing
        return CollectResult(tuple(profile for _, profile in made), failures, skipped, missing)

    def _profile(self, batch: Sequence[Trial]) -> Iterator[tuple[Trial, Profile]]:
        """Profile a batch, and again without the trials that brought it down, until each is decided and stored."""
        by_identity, shown = {trial.identity: trial for trial in batch}, ""
        left, device = tuple(batch), batch[0].device

        def show(identity: str) -> None:
            nonlocal shown
            if identity in by_identity and identity != shown:
                shown = identity
                self.observer.trial_started(by_identity[identity], "profile")

        while left:
            with self.hold(device) if device else nullcontext():
                result = self.collector.profile(left, show)
            for note in result.notes:
                self.observer.note(note)
            for profile in result.profiles:
                self.store.record_profile(self.sweep_id, profile)
                outcome = Outcome(
                    profile.identity or "", profile.state, profile.message, profile.log, Step.LAUNCHING.value,
                    started_at=profile.started_at, duration_ns=profile.duration_ns,
                )  # fmt: skip
                trial = by_identity[outcome.identity]
                self.observer.trial_finished(trial, outcome)
                yield trial, profile
            if result.interrupted:
                raise KeyboardInterrupt
            left = result.remaining


def find_settled(trials: Sequence[Trial], request: Request, store: Store, retry: str = "") -> dict[str, StoredProfile]:
    """Return, in the order of the trials, the stored counters of those that need no profiling."""
    if retry == "all":
        return {}
    stored = store.profiled([trial.identity for trial in trials], request.conditions, request.metrics)
    again = FAILED if retry == "failed" else ()
    known = [trial.identity for trial in trials if trial.identity in stored]
    return {identity: stored[identity] for identity in known if stored[identity].state not in again}


def reason_to_skip(trial: Trial, outcome: Outcome | StoredTrial | None) -> str:
    """Return why a trial is not profiled, given its check's outcome, or an empty string."""
    if trial.backend not in BACKENDS:
        return f"{trial.backend} variants have no hardware counters that {TITLE} reads"
    if trial.unavailable is not None:
        return str(trial.unavailable)
    if outcome is None:
        return "it has not been checked"
    if outcome.state is not State.OK:
        return f"only right results are profiled, and this one is {outcome.state.value}: {outcome.message}"
    return ""


def _device_of(trial: Trial) -> tuple[str, int]:
    return trial.backend, trial.device.index if trial.device else 0
