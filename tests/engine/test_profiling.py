"""Collecting counters with a collector that only takes notes: what the engine asks of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from cuprof.config.model import NcuConfig
from cuprof.core.point import Point
from cuprof.core.records import Conditions, DeviceFacts, Outcome, Profile, State, StoredProfile, Trial, Unavailable
from cuprof.engine.observer import Observer
from cuprof.engine.profiling import CollectResult, Profiling, reason_to_skip
from cuprof.ncu.batch import BatchResult
from cuprof.ncu.setting import Request

COLD = Conditions("cold")


class ToyCollector:
    """Answer with prepared results, in turn; without one, every trial is fine."""

    def __init__(self, *results: Callable[[Sequence[Trial]], BatchResult], batch: int = 2) -> None:
        request, collection = Request(("cycles",), COLD), NcuConfig(batch=batch)
        self.setting = SimpleNamespace(request=request, collection=collection, missing={})
        self.given: list[list[str]] = []
        self.held: list[DeviceFacts] = []
        self.turns: list[int] = []
        self._results = list(results)

    def check(self) -> None:
        """Always works."""

    def profile(self, trials: Sequence[Trial], on_trial: Callable[[str], None] = lambda _: None) -> BatchResult:
        """Note what was given, tell of each trial twice, and answer."""
        self.turns += [device.index for device in self.held if device == trials[0].device]
        self.given.append([trial.variant for trial in trials])
        for trial in trials:
            on_trial(trial.identity)
            on_trial(trial.identity)
        return (self._results.pop(0) if self._results else through)(trials)

    @contextmanager
    def hold(self, device: DeviceFacts) -> Iterator[None]:
        """Note whose turn it is."""
        self.held.append(device)
        yield
        self.held.remove(device)


def through(trials: Sequence[Trial]) -> BatchResult:
    return BatchResult(tuple(profile(trial) for trial in trials))


def profile(trial: Trial, state: State = State.OK) -> Profile:
    return Profile(trial.identity, trial.label, state, COLD, metrics=("cycles",))


@dataclass
class Memory:
    """Keep profiles; what is in `before` was stored by an earlier collection."""

    before: dict[str, StoredProfile] = field(default_factory=dict)
    profiles: list[Profile] = field(default_factory=list)

    def profiled(
        self, identities: Sequence[str], conditions: Conditions, metrics: Collection[str]
    ) -> dict[str, StoredProfile]:
        """Return what was stored before."""
        return {identity: stored for identity, stored in self.before.items() if identity in identities}

    def record_profile(self, sweep_id: int | None, profile: Profile) -> int:
        """Keep a profile."""
        self.profiles.append(profile)
        return len(self.profiles)


class Listener(Observer):
    """Note what a collection tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trial_started(self, trial: Trial, phase: str) -> None:
        """Note it."""
        self.lines.append(f"{phase} {trial.variant}")

    def note(self, text: str) -> None:
        """Note it."""
        self.lines.append(text)


def trials(names: str, index: int = 0) -> list[Trial]:
    device = DeviceFacts("cuda", index, "a card")
    return [Trial(name * 32, "f", name, "cuda", "kernel", Point(n=1), Point(), f"f/{name}", device) for name in names]


def run(
    asked: Sequence[Trial], collector: ToyCollector, memory: Memory, observer: Observer | None = None
) -> CollectResult:
    outcomes = {trial.identity: Outcome(trial.identity, State.OK) for trial in asked}
    listener = observer or Observer()
    return Profiling(collector, memory, 1, listener, collector.hold).collect(asked, outcomes)  # type: ignore[arg-type]


def test_batches_are_of_one_device_and_no_larger_than_asked_for() -> None:
    collector, listener = ToyCollector(), Listener()
    run([*trials("abc"), *trials("de", index=1)], collector, Memory(), listener)
    assert collector.given == [["a", "b"], ["c"], ["d", "e"]]
    assert collector.turns == [0, 0, 1], "each in its device's turn"
    assert listener.lines == [f"profile {name}" for name in "abcde"]


def test_what_is_undecided_is_given_again_and_failures_are_named() -> None:
    def crash(given: Sequence[Trial]) -> BatchResult:
        return BatchResult((profile(given[0], State.CRASHED),), tuple(given[1:]), ("one metric fell away",))

    collector, memory, listener = ToyCollector(crash), Memory(), Listener()
    result = run(trials("ab"), collector, memory, listener)
    assert collector.given == [["a", "b"], ["b"]]
    assert [(stored.name, stored.state) for stored in memory.profiles] == [("f/a", State.CRASHED), ("f/b", State.OK)]
    assert ([trial.label for trial, _ in result.failures], result.exit_code) == (["f/a"], 1)
    assert "one metric fell away" in listener.lines


def test_an_interrupt_comes_after_what_was_through_is_stored() -> None:
    memory = Memory()
    with pytest.raises(KeyboardInterrupt):
        run(trials("ab"), ToyCollector(lambda given: replace(through(given[:1]), interrupted=True)), memory)
    assert [stored.name for stored in memory.profiles] == ["f/a"]


def test_what_is_stored_is_left_alone_with_its_failures_and_gaps() -> None:
    collector = ToyCollector()
    a, b = trials("ab")
    before = {
        a.identity: StoredProfile(State.OK, missing={"cycles": "there are none"}),
        b.identity: StoredProfile(State.CRASHED, "it fell"),
    }
    result = run([a, b], collector, Memory(before))
    assert (collector.given, result.profiles) == ([], ())
    assert [(found.message, type(found)) for _, found in result.failures] == [("it fell", StoredProfile)]
    assert (result.missing, result.exit_code) == ({"cycles": "there are none"}, 1)


def test_only_right_trials_of_back_ends_that_the_profiler_reads_are_profiled() -> None:
    (trial,) = trials("a")
    right, wrong = Outcome(trial.identity, State.OK), Outcome(trial.identity, State.WRONG_RESULT, "x[0]")
    assert reason_to_skip(trial, right) == ""
    assert reason_to_skip(trial, None) == "it has not been checked"
    assert "wrong_result: x[0]" in reason_to_skip(trial, wrong)
    assert "that Nsight Compute reads" in reason_to_skip(replace(trial, backend="cpu"), None)
    assert reason_to_skip(replace(trial, unavailable=Unavailable("no device")), None) == "no device"
