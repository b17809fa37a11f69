"""Take samples of several trials in randomised rounds until each is known well enough."""

from __future__ import annotations

import secrets
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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

    Args:
        executions: chooses the inputs of its executions and compares their results.
        once: it is executed once a reading, since each execution needs its data rewritten first.

    Attributes:
        begun: executions begun that count, those still in flight included.
        spent_ns: wall time of the readings that count.
        last_look: how many had been begun when the interval was last tested.
    """

    key: int
    runnable: Runnable
    executions: Executions | None = None
    once: bool = False
    batch: int = 1
    begun: int = 0
    samples: list[Sample] = field(default_factory=list)
    spent_ns: float = 0.0
    last_look: int = 0


@dataclass
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
        race: stops those that are slower than the best so far; None lets all go on.
    """

    session: Session[Runnable]
    config: MeasureConfig
    method: str
    rng: np.random.Generator
    attend: Callable[[int], None]
    settle_ns: float = 2e8
    monitor: StateMonitor | None = None
    race: Race | None = None
    _frames: deque[tuple[Subject, int | None, Frame]] = field(default_factory=deque)
    _since_ns: int = 0
    _attended: int = -1

    def sample(self, subjects: Sequence[Subject], measure: Measure) -> Iterator[tuple[int, Timing]]:
        """Yield (key, timing) for each subject as soon as it is known well enough.

        Every round takes one sample of each remaining subject, in a fresh random order, so drift of clocks and
        temperature affects all alike and samples of one round can be paired.
        """
        active, number = [*subjects], WARM_UP_ROUND
        self._rule = StoppingRule(self.config)
        self._measure, self._rotation = measure, secrets.token_hex(8)
        try:
            self._warm_up(subjects)
            while active:
                due = [each for each in active if self._rule.is_due(each.begun, each.spent_ns, each.last_look)]
                if due:
                    self._land()
                clock = _median_clock(subjects) if due else None
                for subject in due:
                    timing = self._finish(subject, clock)
                    if timing is not None:
                        active = [each for each in active if each is not subject]
                        yield subject.key, timing
                if self.monitor:
                    self.monitor.refresh()
                number += 1
                for index in self.rng.permutation(len(active)):
                    self._begin(active[index], number)
        finally:
            while self._frames:  # those that a failure leaves are waited for, and not read
                with suppress(Exception):  # the error that ended the sampling is the one that counts
                    self._frames.popleft()[2]()

    def _warm_up(self, subjects: Sequence[Subject]) -> None:
        started, measure = perf_counter_ns(), self._measure
        for subject in subjects:
            durations: list[float] = []
            while len(durations) < max(self.config.warmup, 1) and sum(durations) <= WARM_UP_LIMIT_NS:
                self._begin(subject)
                self._land()
                reading = self._last
                durations.append(reading.duration_ns)
            if durations[0] > WARM_UP_LIMIT_NS:
                subject.begun += 1
                self._keep(subject, WARM_UP_ROUND, reading, round(durations[0]))
            if measure is Measure.HOT and not subject.once:
                most = max(1, min(HOT_BATCH_MOST, QUEUE_DEPTH // max(subject.runnable.steps, 1)))
                subject.batch = max(1, min(most, int(HOT_BATCH_NS / max(min(durations), 100.0)) + 1))
            elif measure is Measure.COLD and min(durations) < GAPS_MATTER_NS:
                subject.batch = subject.runnable.launch_phases
        while subjects and measure is not Measure.TOTAL and perf_counter_ns() - started < self.settle_ns:
            for subject in subjects:
                self._begin(subject)
        self._land()

    def _finish(self, subject: Subject, clock: float | None) -> Timing | None:
        """Return the timing if the rule says stop, else None; `clock` is the rotation's median SM clock in MHz."""
        subject.last_look, measure = len(subject.samples), self._measure
        if subject.samples[-1].sm_clock_mhz is None:
            clock = None
        samples = [_leave_out(sample, clock, self.config.clock_tolerance) for sample in subject.samples]
        counted = [sample.duration_ns for sample in samples if not sample.excluded]
        tick_ns = self.session.tick_ns(measure) / subject.batch
        reason = self._rule.reason(counted, len(samples) - len(counted), subject.spent_ns, tick_ns)
        if self.race and self.race.is_lost((self._rotation, subject.key), counted, tick_ns):
            reason = reason or "slower"
        if reason is None:
            return None
        details: dict[str, Any] = {"batch": subject.batch, "tick_ns": tick_ns, "sampling_ns": round(subject.spent_ns)}
        if not counted:
            if doubt := next((sample.excluded for sample in samples if sample.excluded.startswith(NOT_COLD)), ""):
                details[DOUBT] = doubt
            samples = [replace(sample, excluded="") for sample in samples]
            reason = "excluded"
        if clock is not None:
            details["median_sm_clock_mhz"] = round(clock, 1)
        details |= self.monitor.state if self.monitor else {}
        summary = summarise(samples, self.config.confidence, tick_ns)
        return Timing(measure, self.method, tuple(samples), summary, reason, details, self._rotation)

    def _begin(self, subject: Subject, number: int | None = None) -> None:
        """Begin a frame as one of the round of this number; without one it does not count.

        Raises:
            LaunchError: it failed, or an earlier one did; the last one attended to is at fault.
        """
        executions, depth = subject.executions, max(self.session.in_flight(subject.runnable), 1)
        self._land(but=depth - 1)
        if not self._frames:
            self._since_ns = perf_counter_ns()
        self._attend(subject)
        try:
            draws = (executions.deal,) if executions else ()
            frame = self.session.begin(subject.runnable, self._measure, subject.batch, *draws)
        except LaunchError:
            self._land()  # an earlier one may have failed
            raise
        subject.begun += number is not None
        self._frames.append((subject, number, frame))
        if depth == 1 or (executions and executions.is_fetched):
            self._land()

    def _land(self, but: int = 0) -> None:
        """Take the readings of all frames but the last few."""
        while len(self._frames) > but:
            subject, number, frame = self._frames.popleft()
            if self._attended != subject.key:
                self._attend(subject)
            reading = self._last = frame()
            spent_ns = perf_counter_ns() - self._since_ns
            if subject.executions:
                subject.executions.settle(spent_ns)
            self._since_ns = perf_counter_ns()
            if number is not None:
                self._keep(subject, number, reading, spent_ns)

    def _attend(self, subject: Subject) -> None:
        self._attended = subject.key
        self.attend(subject.key)

    def _keep(self, subject: Subject, number: int, reading: Reading, spent_ns: int) -> None:
        """Let a reading count, as one of the round of this number."""
        monitor = self.monitor
        excluded, clock = reading.suspect or (monitor.throttled if monitor else ""), reading.sm_clock_mhz
        if clock is None and monitor and self._measure is not Measure.TOTAL:
            clock = monitor.sm_clock_mhz  # OpenCL, a coarse counter
        subject.samples.append(Sample(number, reading.duration_ns, clock, excluded))
        subject.spent_ns += spent_ns


def _median_clock(subjects: Sequence[Subject]) -> float | None:
    samples = (sample for subject in subjects for sample in subject.samples[-CLOCKS_SEEN:])
    clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    return statistics.median(clocks) if clocks else None


def _leave_out(sample: Sample, clock: float | None, tolerance: float) -> Sample:
    """Return a sample that does not count if its clock is too slow."""
    own = sample.sm_clock_mhz
    if not sample.excluded and clock is not None and own is not None and own < (1 - tolerance) * clock:
        return replace(sample, excluded=f"SM clock {own:.0f} MHz, median {clock:.0f} MHz")
    return sample
