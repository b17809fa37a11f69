"""Take samples of several trials in randomised rounds until each is known well enough."""

from __future__ import annotations

import secrets
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from cuprof.backends.contract import GAPS_MATTER_NS, NOT_COLD, Frame, Reading, Runnable, Session
from cuprof.backends.device_state import StateMonitor
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import LaunchError
from cuprof.core.records import DOUBT, Measure, Sample, Timing
from cuprof.statistics.median import summarise
from cuprof.worker.executions import Executions
from cuprof.worker.stopping import Race, StoppingRule

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
CLOCKS_SEEN = 200
"""Take the median clock of this many last readings of each trial."""


@dataclass(eq=False)
class Subject:
    """One trial while it is sampled.

    Attributes:
        begun: executions begun that count, those still in flight included.
        spent_ns: wall time of the readings that count.
        last_look: how many had been begun when the interval was last tested.
    """

    key: int
    runnable: Runnable
    executions: Executions | None = None
    batch: int = 1
    begun: int = 0
    readings: list[tuple[int, Reading, str]] = field(default_factory=list)
    """A round's number, its reading, and the reason why the reading does not count, or an empty string."""
    spent_ns: float = 0.0
    last_look: int = 0


@dataclass(frozen=True)
class Sampler:
    """Sample under one set of rules; one object serves one call of `sample` at a time.

    Frames of several trials may be in flight at once: begun, and not yet read. Their readings are taken in the order
    of their beginning, so the first one that fails names the trial at fault.

    Args:
        session: where the runnables are prepared.
        config: when to stop, how many executions come before the first sample, and which clocks are too slow.
        method: the method's hash, stored with every timing.
        rng: orders the rounds.
        attend: called with a subject's key before each of its executions begins or is waited for, so that a crash can
            be attributed.
        settle_ns: work at least this long before the first sample, so that the clocks have risen.
        monitor: reads the device's state between rounds, or None.
        executions: by key, what chooses the inputs of a subject's executions and compares their results.
        once: keys of those executed once a reading, since each execution needs its data rewritten first.
        race: stops those that are slower than the best so far; None lets all go on.
    """

    session: Session[Runnable]
    config: MeasureConfig
    method: str
    rng: np.random.Generator
    attend: Callable[[int], None]
    settle_ns: float = 2e8
    monitor: StateMonitor | None = None
    executions: Mapping[int, Executions] = field(default_factory=dict)
    once: frozenset[int] = frozenset()
    race: Race | None = None

    def sample(self, runnables: Sequence[tuple[int, Runnable]], measure: Measure) -> Iterator[tuple[int, Timing]]:
        """Yield (key, timing) for each runnable as soon as it is known well enough.

        Every round takes one sample of each remaining runnable, in a fresh random order, so drift of clocks and
        temperature affects all alike and samples of one round can be paired.
        """
        flight = _Flight(self, measure)
        try:
            yield from self._sample(runnables, measure, flight)
        finally:
            flight.abandon()

    def _sample(
        self, runnables: Sequence[tuple[int, Runnable]], measure: Measure, flight: _Flight
    ) -> Iterator[tuple[int, Timing]]:
        rotation, rule = secrets.token_hex(8), StoppingRule(self.config)
        active = subjects = [Subject(key, runnable, self.executions.get(key)) for key, runnable in runnables]
        self._warm_up(subjects, flight)
        number = WARM_UP_ROUND
        while active:
            due = [each for each in active if rule.is_due(each.begun, each.spent_ns, each.last_look)]
            if due:
                flight.land()
            clock = _median_clock(subjects) if due else None
            for subject in due:
                timing = self._finish(subject, measure, clock)
                if timing is not None:
                    active = [each for each in active if each is not subject]
                    yield subject.key, replace(timing, rotation=rotation)
            if self.monitor:
                self.monitor.refresh()
            number += 1
            for index in self.rng.permutation(len(active)):
                flight.begin(active[index], number)

    def _warm_up(self, subjects: Sequence[Subject], flight: _Flight) -> None:
        started, measure = perf_counter_ns(), flight.measure
        for subject in subjects:
            durations: list[float] = []
            while len(durations) < max(self.config.warmup, 1) and sum(durations) <= WARM_UP_LIMIT_NS:
                reading = flight.read(subject)
                durations.append(reading.duration_ns)
            if durations[0] > WARM_UP_LIMIT_NS:
                subject.begun += 1
                flight.keep(subject, WARM_UP_ROUND, reading, round(durations[0]))
            if measure is Measure.HOT and subject.key not in self.once:
                subject.batch = _hot_batch(subject, min(durations))
            elif measure is Measure.COLD and min(durations) < GAPS_MATTER_NS:
                subject.batch = subject.runnable.launch_phases
        while subjects and measure is not Measure.TOTAL and perf_counter_ns() - started < self.settle_ns:
            for subject in subjects:
                flight.begin(subject)
        flight.land()

    def _finish(self, subject: Subject, measure: Measure, clock: float | None) -> Timing | None:
        """Return the timing if the rule says stop, else None; `clock` is the rotation's median SM clock in MHz."""
        subject.last_look = len(subject.readings)
        if subject.readings[-1][1].sm_clock_mhz is None:
            clock = None
        excluded = _find_excluded(subject, clock, self.config.clock_tolerance)
        counted = [
            reading.duration_ns for (_, reading, _), why in zip(subject.readings, excluded, strict=True) if not why
        ]
        tick_ns = self.session.tick_ns(measure) / subject.batch
        rule = StoppingRule(self.config)
        reason = rule.reason(counted, len(excluded) - len(counted), subject.spent_ns, tick_ns)
        if self.race and self.race.is_lost(counted, tick_ns):
            reason = reason or "slower"
        if reason is None:
            return None
        doubt = ""
        if not counted:
            doubt = next((why for why in excluded if why.startswith(NOT_COLD)), "")
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
        details |= self.monitor.state if self.monitor else {}
        summary = summarise(samples, self.config.confidence, tick_ns)
        return Timing(measure, self.method, samples, summary, reason, details)


class _Flight:
    """The frames in flight, oldest first."""

    def __init__(self, sampler: Sampler, measure: Measure) -> None:
        self.sampler, self.measure = sampler, measure
        self._frames: deque[tuple[Subject, int | None, Frame]] = deque()
        self._since_ns, self._last, self._attended = 0, Reading(0.0), -1

    def begin(self, subject: Subject, number: int | None = None) -> None:
        """Begin a frame as one of the round of this number; without one it does not count.

        Raises:
            LaunchError: it failed, or an earlier one did; the last one attended to is at fault.
        """
        sampler, executions = self.sampler, subject.executions
        depth = max(sampler.session.in_flight(subject.runnable), 1)
        while len(self._frames) >= depth:
            self._land_oldest()
        if not self._frames:
            self._since_ns = perf_counter_ns()
        self._attend(subject)
        try:
            draws = (executions.deal,) if executions else ()
            frame = sampler.session.begin(subject.runnable, self.measure, subject.batch, *draws)
        except LaunchError:
            self.land()  # an earlier one may have failed
            raise
        subject.begun += number is not None
        self._frames.append((subject, number, frame))
        if depth == 1 or (executions and executions.is_fetched):
            self.land()

    def read(self, subject: Subject) -> Reading:
        """Return the reading of a frame that does not count."""
        self.begin(subject)
        self.land()
        return self._last

    def land(self) -> None:
        """Take the readings of all frames."""
        while self._frames:
            self._land_oldest()

    def abandon(self) -> None:
        """After a failed frame, wait for the pending ones, which will not be read."""
        while self._frames:
            with suppress(Exception):  # the error that ended the sampling is the one that counts
                self._frames.popleft()[2]()

    def _land_oldest(self) -> None:
        subject, number, frame = self._frames.popleft()
        if self._attended != subject.key:
            self._attend(subject)
        reading = self._last = frame()
        spent_ns = perf_counter_ns() - self._since_ns
        if subject.executions:
            subject.executions.settle(spent_ns)
        self._since_ns = perf_counter_ns()
        if number is not None:
            self.keep(subject, number, reading, spent_ns)

    def _attend(self, subject: Subject) -> None:
        self._attended = subject.key
        self.sampler.attend(subject.key)

    def keep(self, subject: Subject, number: int, reading: Reading, spent_ns: int) -> None:
        """Let a reading count, as one of the round of this number."""
        monitor = self.sampler.monitor
        excluded = reading.suspect or (monitor.throttled if monitor else "")
        if reading.sm_clock_mhz is None and monitor and self.measure is not Measure.TOTAL:
            reading = replace(reading, sm_clock_mhz=monitor.sm_clock_mhz)  # OpenCL, a coarse counter
        subject.readings.append((number, reading, excluded))
        subject.spent_ns += spent_ns


def _hot_batch(subject: Subject, duration_ns: float) -> int:
    most = max(1, min(HOT_BATCH_MOST, QUEUE_DEPTH // max(subject.runnable.steps, 1)))
    return max(1, min(most, int(HOT_BATCH_NS / max(duration_ns, 100.0)) + 1))


def _median_clock(subjects: Sequence[Subject]) -> float | None:
    clocks = [
        reading.sm_clock_mhz
        for subject in subjects
        for _, reading, _ in subject.readings[-CLOCKS_SEEN:]
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
