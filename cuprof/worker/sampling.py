"""Take samples of several trials in randomised rounds until each is known well enough."""

from __future__ import annotations

import secrets
import statistics
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from cuprof.backends.contract import CLOCKS_DISAGREE, GAPS_MATTER_NS, NOT_COLD, Draw, Reading, Runnable, Session
from cuprof.backends.device_state import DeviceState, StateMonitor
from cuprof.core.records import DOUBT, Measure, Sample, Timing
from cuprof.statistics.median import summarise
from cuprof.worker.seal import Seal
from cuprof.worker.stopping import StoppingRule

HOT_BATCH_NS = 100_000
"""Make a hot batch last about this long, so that the events' resolution and own cost become negligible."""
HOT_BATCH_MOST = 256
WARM_UP_LIMIT_NS = 100_000_000
"""Stop warming up after this much execution time, whatever number of executions was asked for. A longer single
execution counts as a sample: warming up would change little, and the check has already executed it."""
WARM_UP_ROUND = -1
"""The round number of warm-up executions that count."""
QUEUE_DEPTH = 500
"""Enqueue at most this many operations behind a held stream; the driver's queue takes about a thousand and then blocks
the host."""


_Kept = tuple[int, Reading, str]
"""A round's number, its reading, and the reason why the reading does not count, or an empty string."""


@dataclass(eq=False)
class Subject:
    """One trial while it is sampled."""

    key: int
    runnable: Runnable
    batch: int = 1
    readings: list[_Kept] = field(default_factory=list)
    seal: Seal = field(default_factory=Seal)
    spent_ns: float = 0.0
    last_look: int = 0

    def keep(self, number: int, reading: Reading, excluded: str) -> None:
        """Count a reading for the round of this number, or record why it does not count."""
        kept = (number, reading, excluded)
        self.readings.append(kept)
        self.seal.add(_encode(kept))


class Dealer(Protocol):
    """Chooses the inputs of each execution, and processes its result."""

    def deal(self, index: int) -> Draw:
        """Return the inputs and fill for a subject's next execution, by the subject's key."""

    def settle(self, index: int, runnable: Runnable, spent_ns: int) -> None:
        """Process the result of a subject's last reading."""


@dataclass(frozen=True)
class Sampler:
    """Sample under one set of rules.

    Args:
        session: where the runnables are prepared.
        rule: when to stop.
        method: the method's hash, stored with every timing.
        warmup: executions before the first sample of each trial.
        settle_ns: work at least this long before the first sample, so that the clocks have risen.
        clock_tolerance: a sample whose SM clock lies further below the median clock than this fraction is left out.
        rng: orders the rounds.
        attend: called with a subject's key before each of its executions, so that a crash can be attributed.
        monitor: reads the device's state between rounds, or None.
        dealer: deals the executions; None leaves the inputs as they are.
        once: keys of those executed once a reading, since each execution needs its data rewritten first.
        begun: earlier readings that count, by key; a subject with one is not warmed up.
    """

    session: Session[Runnable]
    rule: StoppingRule
    method: str
    rng: np.random.Generator
    attend: Callable[[int], None]
    warmup: int = 3
    settle_ns: float = 2e8
    clock_tolerance: float = 0.05
    monitor: StateMonitor | None = None
    dealer: Dealer | None = None
    once: frozenset[int] = frozenset()
    begun: Mapping[int, Reading] = field(default_factory=dict)

    def sample(self, runnables: Sequence[tuple[int, Runnable]], measure: Measure) -> Iterator[tuple[int, Timing]]:
        """Yield (key, timing) for each runnable as soon as it is known well enough.

        Every round takes one sample of each remaining runnable, in a fresh random order, so drift of clocks and
        temperature affects all alike and samples of one round can be paired.
        """
        rotation = secrets.token_hex(8)
        subjects = [Subject(key, runnable) for key, runnable in runnables]
        self._warm_up(subjects, measure)
        active = list(subjects)
        number = WARM_UP_ROUND
        while active:
            due = [s for s in active if self.rule.is_due(len(s.readings), s.spent_ns, s.last_look)]
            clock = _median_clock(subjects) if due else None
            for subject in due:
                timing = self._finish(subject, measure, clock)
                if timing is not None:
                    active.remove(subject)
                    yield subject.key, replace(timing, rotation=rotation)
            if self.monitor:
                self.monitor.refresh()
            number += 1
            for index in self.rng.permutation(len(active)):
                subject = active[index]
                self.attend(subject.key)
                self._keep(subject, self._read(subject, measure, subject.batch), measure, number)

    def _keep(self, subject: Subject, reading: Reading, measure: Measure, number: int) -> None:
        """Let a reading count, as one of the round of this number."""
        excluded = reading.suspect or (self.monitor.throttled if self.monitor else "")
        subject.keep(number, self._with_clock(reading, measure), excluded)

    def _read(self, subject: Subject, measure: Measure, batch: int = 1, *, counts: bool = True) -> Reading:
        """Read a subject with the dealt inputs; the time spent counts as its own if the reading does."""
        started = perf_counter_ns()
        if self.dealer is None:
            reading = self.session.begin(subject.runnable, measure, batch).reading()
        else:
            deal = partial(self.dealer.deal, subject.key)
            reading = self.session.begin(subject.runnable, measure, batch, deal).reading()
        spent_ns = perf_counter_ns() - started
        if counts:
            subject.spent_ns += spent_ns
        if self.dealer is not None:
            self.dealer.settle(subject.key, subject.runnable, spent_ns)
        return reading

    def _with_clock(self, reading: Reading, measure: Measure) -> Reading:
        """Add NVML's SM clock to a reading whose back end cannot read one on the device (OpenCL, a coarse counter)."""
        if reading.sm_clock_mhz is not None or self.monitor is None or measure is Measure.TOTAL:
            return reading
        return replace(reading, sm_clock_mhz=self.monitor.sm_clock_mhz)

    def _warm_up(self, subjects: Sequence[Subject], measure: Measure) -> None:
        started = perf_counter_ns()
        for subject in subjects:
            if (begun := self.begun.get(subject.key)) is not None:
                self._keep(subject, begun, measure, WARM_UP_ROUND)
                subject.spent_ns += begun.duration_ns
        subjects = [subject for subject in subjects if subject.key not in self.begun]
        for subject in subjects:
            self.attend(subject.key)
            durations: list[float] = []
            while len(durations) < max(self.warmup, 1) and sum(durations) <= WARM_UP_LIMIT_NS:
                reading = self._read(subject, measure, counts=False)
                durations.append(reading.duration_ns)
            if durations[0] > WARM_UP_LIMIT_NS:
                self._keep(subject, reading, measure, WARM_UP_ROUND)
                subject.spent_ns += durations[0]
            if measure is Measure.HOT and subject.key not in self.once:
                subject.batch = self._batch(subject, min(durations))
            elif measure is Measure.COLD and min(durations) < GAPS_MATTER_NS:
                subject.batch = subject.runnable.launch_phases
        if measure is Measure.TOTAL:
            return
        while subjects and perf_counter_ns() - started < self.settle_ns:
            for subject in subjects:
                self.attend(subject.key)
                self._read(subject, measure, subject.batch, counts=False)

    @staticmethod
    def _batch(subject: Subject, duration_ns: float) -> int:
        most = max(1, min(HOT_BATCH_MOST, QUEUE_DEPTH // max(subject.runnable.steps, 1)))
        return max(1, min(most, int(HOT_BATCH_NS / max(duration_ns, 100.0)) + 1))

    def _finish(self, subject: Subject, measure: Measure, clock: float | None) -> Timing | None:
        """Return the timing if the rule says stop, else None; `clock` is the rotation's median SM clock in MHz.

        Raises:
            TamperedError: its readings have been changed.
        """
        subject.seal.verify(map(_encode, subject.readings), "Subject.readings")
        subject.last_look = len(subject.readings)
        if subject.readings[-1][1].sm_clock_mhz is None:
            clock = None
        excluded = _find_excluded(subject, clock, self.clock_tolerance)
        counted = [
            reading.duration_ns for (_, reading, _), why in zip(subject.readings, excluded, strict=True) if not why
        ]
        tick_ns = self.session.tick_ns(measure) / subject.batch
        reason = self.rule.reason(counted, len(excluded) - len(counted), subject.spent_ns, tick_ns)
        if reason is None:
            return None
        doubt = ""
        if not counted:
            doubt = next((why for why in excluded if why.startswith((CLOCKS_DISAGREE, NOT_COLD))), "")
            excluded = [""] * len(excluded)
            reason = "excluded"
        samples = tuple(
            Sample(number, reading.duration_ns, reading.sm_clock_mhz, why)
            for (number, reading, _), why in zip(subject.readings, excluded, strict=True)
        )
        details: dict[str, Any] = {"batch": subject.batch, "tick_ns": tick_ns, "sampling_ns": round(subject.spent_ns)}
        if doubt:
            details[DOUBT] = doubt
        if clock is not None:
            details["median_sm_clock_mhz"] = round(clock, 1)
        state: DeviceState | None = self.monitor.state if self.monitor else None
        if state is not None:
            details |= state.as_details()
        return Timing(measure, self.method, samples, summarise(samples, self.rule.confidence, tick_ns), reason, details)


def _encode(kept: _Kept) -> bytes:
    number, reading, excluded = kept
    return struct.pack("<qdd", number, reading.duration_ns, reading.sm_clock_mhz or 0.0) + excluded.encode()


def _median_clock(subjects: Sequence[Subject]) -> float | None:
    clocks = [
        reading.sm_clock_mhz
        for subject in subjects
        for _, reading, _ in subject.readings[-200:]
        if reading.sm_clock_mhz is not None
    ]
    return statistics.median(clocks) if clocks else None


def _find_excluded(subject: Subject, clock: float | None, tolerance: float) -> list[str]:
    """Return of each reading why it does not count, its clock being too slow among them, or the empty text."""
    found = []
    for _, reading, excluded in subject.readings:
        own = reading.sm_clock_mhz
        if not excluded and clock is not None and own is not None and own < (1 - tolerance) * clock:
            excluded = f"SM clock {own:.0f} MHz, median {clock:.0f} MHz"
        found.append(excluded)
    return found
