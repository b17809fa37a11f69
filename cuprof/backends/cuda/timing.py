"""How CUDA executions are timed; docs/measurement.md gives each choice its reason.

Raise `timing_version` in spec.py when a change here changes the meaning of a number.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from time import perf_counter_ns
from typing import Any

import numpy as np

from cuprof.backends.contract import CLOCKS_DISAGREE, NOT_COLD, Reading
from cuprof.backends.cuda.cupti_clock import CuptiClock
from cuprof.backends.cuda.driver import MappedMemory, PackedLaunch, call, load_driver
from cuprof.backends.cuda.kernels import DeviceKernels
from cuprof.backends.ticks import smallest_step

HOLD_LIMIT_NS = 50_000_000
"""A held stream releases itself after this time, so a call that synchronises costs a reading instead of a deadlock."""
HOLD_LEAST_NS = 20_000
"""Hold at least this long when the SM clock is read from the hold."""
CLOCK_STEPS = 200
"""Hold for at least this many steps of the device's nanosecond counter: the SM clock is then good to 0.5 %. The counter
steps by 32 ns on an H200 and by about a microsecond on older devices."""
LEAST_CLOCK_STEPS = 50
"""Report no SM clock from fewer steps than this: its error would exceed the tolerance that excludes samples."""
FLUSH_FACTOR = 4
"""Read this many times the L2 cache to flush it; its replacement policy is not strictly least-recently-used."""
LAUNCH_PHASES = 8
"""The gap between two launches of one execution depends, by about 0.9 µs, on how many launches the context has made
before them, modulo this (measured on H200s). So an execution of several launches is timed once at every remainder."""
FLUSH_LEAST_SHARE, FLUSH_READINGS = 0.5, 16
"""The shortest of `FLUSH_READINGS` flushes is the norm. A later one that took less than this share of it cannot have
read everything."""
OWN_COST_READINGS = 512
"""Readings for the apparatus's own cost. It has levels 160 ns apart, so a median of few readings depends on chance."""
EMPTY_KERNEL_NS = 350.0
"""The assumed duration of an empty kernel. By its own clock it lasts 0, by CUPTI's time stamps 0.6 µs, the difference
being the device's ramp up and down around it. With this value spins of known length read about as much too long as
kernels read shorter than by CUPTI, at most 0.4 µs either way (measured on H200s)."""
MARK_LIMIT_NS = 1_000_000
"""Look this long for the mark behind a frame's last event before waiting for all enqueued work."""
LEAST_NS = 1.0
"""Report at least this for a reading that its correction would make zero or negative."""
TICKET_MASK = 0xFFFFFFFF
CLOCKS_LEAST_NS, CLOCKS_MOST_NS = -3_000.0, 100_000.0
"""How far the device's clock around a frame may differ from its events: a little less, since both move in steps, up to
the cost of the marks themselves or of another process's turn on the device."""

Enqueue = Callable[[], object]


@dataclass(frozen=True)
class Surroundings:
    """The untimed work around the frame of one execution on the stream.

    Args:
        draw: the word with the drawn inputs for the kernels of `before` and `after`. They run once everything is
            enqueued, so no earlier work can find the inputs that count.
        before: enqueued before the flush: writes the inputs and overwrites the outputs.
        after: enqueued after the end of the frame: compares the results. The host does not wait for it before the next
            frame.
    """

    draw: int = 0
    before: tuple[Callable[[int], object], ...] = ()
    after: tuple[Callable[[int], object], ...] = ()


BARE = Surroundings()


@dataclass(frozen=True)
class Calibration:
    """Values that correct and question readings, measured once. Frozen objects are watched for changes.

    Args:
        correction_ns: subtracted from the time between two events.
        tick_ns: the step of event times.
        clock_step_ns: the step of the device's nanosecond counter.
        flush_least_ns: a flush that takes less has not read all that it has to.
    """

    correction_ns: float = 0.0
    tick_ns: float = 0.0
    clock_step_ns: int = 1
    flush_least_ns: float = 0.0

    @property
    def hold_least_ns(self) -> int:
        """Return how long a hold lasts at least from which the SM clock is read."""
        return max(HOLD_LEAST_NS, CLOCK_STEPS * self.clock_step_ns)


class CudaTimer:
    """Frames executions on the legacy default stream with events, holds and flushes.

    A cold reading: hold → inputs and outputs written → flush → mark → start event → execution → end event → mark →
    results compared. The hold keeps the device waiting until all of it is enqueued, so the events surround device work
    only. The inputs to write become known when the hold releases. Work launched on the default stream, or on any stream
    that blocks with it, is within the frame by the stream's own rules.

    Args:
        cupy: the CuPy module, its device current.
        stream: the legacy default stream.
        kernels: the kernels that hold, flush and spin.
        l2_bytes: the L2 cache's size.
    """

    def __init__(self, cupy: Any, stream: Any, kernels: DeviceKernels, l2_bytes: int) -> None:
        self.driver = load_driver()
        self.cupy, self.stream, self.kernels = cupy, stream, kernels
        self._random = Random()  # a generator of its own, which no variant can seed
        self.flush_buffer = cupy.empty(max(FLUSH_FACTOR * l2_bytes, 32 << 20) // 4096 * 4096, cupy.uint8)
        self.flush_buffer.fill(1)
        self._mapped = MappedMemory(10)
        self._words = self._mapped.array
        # Word 0: the gate and the draw. Words 1-3: stamp of the hold (cycles, ns, expired). Words 4-6: stamp of the
        # flush. Word 7: sink. Words 8-9: the device's time at the marks.
        self._gate = self._words[:1].view(np.uint32)
        self._drawn = cupy.zeros(1, cupy.uint32)
        self._ticket = 0
        multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._flush = self.reader(self.flush_buffer, 4 * multiprocessors, self._mapped.address + 32)
        self._hold = self.kernels.launch(
            "hold",
            1,
            1,
            [
                self._mapped.address,
                np.uint32(0),
                np.uint64(0),
                np.uint64(HOLD_LIMIT_NS),
                self._mapped.address + 8,
                self._drawn.data.ptr,
            ],
        )
        self._marks = [self.kernels.launch("mark", 1, 1, [self._mapped.address + offset]) for offset in (64, 72)]
        self._empty = self.kernels.launch("empty", 1, 1, [])
        flags = self.driver.CUevent_flags.CU_EVENT_DEFAULT
        self._start = call(self.driver.cuEventCreate(flags), "create an event")
        self._end = call(self.driver.cuEventCreate(flags), "create an event")
        self.cupti: CuptiClock | None = None
        self.calibration = Calibration()
        self.own_costs = self._calibrate()

    def reader(self, buffer: Any, blocks: int, stamp_address: int = 0) -> PackedLaunch:
        """Return a launch that reads the whole buffer (a CuPy array of a multiple of 16 bytes)."""
        sink = self._mapped.address + 56
        words = np.uint64(buffer.nbytes // 16)
        return self.kernels.launch("read_through", blocks, 512, [buffer.data.ptr, words, sink, stamp_address])

    def spinner(self, duration_ns: int) -> PackedLaunch:
        """Return a launch of one thread that runs for the given time by the device's clock."""
        return self.kernels.launch("spin", 1, 1, [np.uint64(duration_ns), 0])

    @property
    def draw_address(self) -> int:
        """Return where the kernels of an execution's surroundings find its draw."""
        return int(self._drawn.data.ptr)

    def cold_over_phases(
        self,
        enqueue: Enqueue,
        launches: int | None,
        flush: str = "clean",
        blocking: bool = True,
        around: Callable[[], Surroundings] = lambda: BARE,
    ) -> Reading:
        """Time `LAUNCH_PHASES` executions, each with cold caches and one launch further on, and return their mean.

        Args:
            launches: how many launches an execution makes; None where that is not known, as of a library: its
                executions then begin at phases drawn at random.
            around: gives each execution its surroundings.
        """
        readings = []
        for _ in range(LAUNCH_PHASES):
            surroundings = around()
            own = 1 + len(self._marks) + (flush == "clean") + len(surroundings.before) + len(surroundings.after)
            step = (1 - own - (launches or 0)) % LAUNCH_PHASES
            if launches is None or flush == "dirty":
                step = self._random.randrange(LAUNCH_PHASES)
            for _ in range(step):
                self._empty(self.stream.ptr)
            readings.append(self.cold(enqueue, flush, blocking, surroundings))
        clocks = [reading.sm_clock_mhz for reading in readings if reading.sm_clock_mhz is not None]
        return Reading(
            fmean(reading.duration_ns for reading in readings),
            fmean(clocks) if clocks else None,
            next((reading.suspect for reading in readings if reading.suspect), ""),
        )

    def cold(
        self, enqueue: Enqueue, flush: str = "clean", blocking: bool = True, around: Surroundings = BARE
    ) -> Reading:
        """Time one execution with the caches full of other data.

        Args:
            flush: "clean" reads other data, "dirty" writes it (as nvbench and Triton do: the execution then pays for
                writing those lines back), "none" leaves the caches as they are.
        """
        clock_from_flush = flush == "clean"
        least_ns = 0 if clock_from_flush else self.calibration.hold_least_ns
        self._words[5] = 0
        elapsed, suspect = self._framed(enqueue, 1, blocking, least_ns, flush, around)
        if clock_from_flush and int(self._words[5]) < self.calibration.flush_least_ns:
            suspect = f"{NOT_COLD}: {self._words[5]} ns, not {self.calibration.flush_least_ns / FLUSH_LEAST_SHARE:.0f}"
        clock = self._clock(4) if clock_from_flush else self._clock(1) if blocking else None
        return Reading(max(elapsed - self.calibration.correction_ns, LEAST_NS), clock, suspect)

    def hot(self, enqueue: Enqueue, batch: int, blocking: bool = True, around: Surroundings = BARE) -> Reading:
        """Time `batch` executions back to back; the duration is one execution's share."""
        elapsed, suspect = self._framed(enqueue, batch, blocking, self.calibration.hold_least_ns, "none", around)
        duration_ns = max(elapsed - self.calibration.correction_ns, LEAST_NS) / batch
        return Reading(duration_ns, self._clock(1) if blocking else None, suspect)

    def total(
        self,
        uploads: list[tuple[int, int, int]],
        enqueue: Enqueue,
        downloads: list[tuple[int, int, int]],
        around: Surroundings = BARE,
    ) -> Reading:
        """Time transfers and execution by the host's clock, from before the first copy until the last has arrived.

        Args:
            uploads: (device address, host address, bytes) copied before the execution.
            downloads: (host address, device address, bytes) copied after it.
        """
        stream = self.stream.ptr
        self._tell(around.draw)
        for put in around.before:
            put(stream)
        self.stream.synchronize()
        started = perf_counter_ns()
        for target, source, size in uploads:
            call(self.driver.cuMemcpyHtoDAsync(target, source, size, stream), "copy inputs to the device")
        enqueue()
        for target, source, size in downloads:
            call(self.driver.cuMemcpyDtoHAsync(target, source, size, stream), "copy results to the host")
        call((*self.driver.cuStreamSynchronize(stream),), "wait for the device")
        duration_ns = float(perf_counter_ns() - started)
        for put in around.after:
            put(stream)
        return Reading(duration_ns)

    def compare(self, enqueue: Enqueue, arounds: Sequence[Surroundings]) -> None:
        """Execute once for each of the surroundings, only for the comparison, and wait; nothing is flushed or timed.

        A single one is held back like a timed one. Several get their draws in stream order instead, which costs the
        host a fifth of the time.
        """
        stream = self.stream.ptr
        held = len(arounds) == 1
        if held:
            self._announce(arounds[0], 0, HOLD_LIMIT_NS)
        try:
            for around in arounds:
                if not held:
                    self._tell(around.draw)
                for put in around.before:
                    put(stream)
                enqueue()
                gc.disable()
                for put in around.after:
                    put(stream)
                gc.enable()
        finally:
            gc.enable()
            if held:
                self._let_go()
        self.stream.synchronize()

    def use_cupti(self) -> None:
        """Take durations from CUPTI from now on; raises `MissingDependencyError` where it is not installed."""
        if self.cupti is None:
            self.cupti = CuptiClock()
            self.calibration = replace(self.calibration, correction_ns=0.0, tick_ns=0.0)

    def _framed(
        self, enqueue: Enqueue, count: int, blocking: bool, least_ns: int, flush: str, around: Surroundings
    ) -> tuple[float, str]:
        stream, driver = self.stream.ptr, self.driver
        if self.cupti:
            self.stream.synchronize()
            self.cupti.start()
        self._announce(around, least_ns, HOLD_LIMIT_NS if blocking else 0)
        self._words[9] = 0
        opened_ns = perf_counter_ns()
        try:
            for put in around.before:
                put(stream)
            if flush == "clean":
                self._flush(stream)
            elif flush == "dirty":
                driver.cuMemsetD8Async(self.flush_buffer.data.ptr, 0, self.flush_buffer.nbytes, stream)
            self._marks[0](stream)
            driver.cuEventRecord(self._start, stream)
            for _ in range(count):
                enqueue()
            gc.disable()  # no finaliser launches anything between the end of the frame and the comparison
            driver.cuEventRecord(self._end, stream)
            self._marks[1](stream)
            for put in around.after:
                put(stream)
        finally:
            gc.enable()
            if blocking:
                self._let_go()
        call(driver.cuEventSynchronize(self._end), "execute")
        host_ns = perf_counter_ns() - opened_ns
        if self.cupti:
            self.stream.synchronize()
            return self.cupti.span_ns(), ""
        elapsed = float(call(driver.cuEventElapsedTime(self._start, self._end), "read events")) * 1e6
        if blocking and int(self._words[3]) & 1:
            self.stream.synchronize()
            return elapsed, "the device did not wait for the host: the call synchronises, or the host was held up"
        return elapsed, _disagreement(elapsed, self._await_mark() - int(self._words[8]), host_ns)

    def _await_mark(self) -> int:
        """Return the second mark, which follows the event, without waiting for any work behind it."""
        give_up_ns = perf_counter_ns() + MARK_LIMIT_NS
        while not self._words[9]:
            if perf_counter_ns() > give_up_ns:
                call((*self.driver.cuStreamSynchronize(self.stream.ptr),), "execute")
                break
        return int(self._words[9])

    def _tell(self, draw: int) -> None:
        """Write the drawn inputs and fill to the device, in stream order, for the executions that follow."""
        call((*self.driver.cuMemsetD32Async(self._drawn.data.ptr, draw, 1, self.stream.ptr),), "draw inputs")

    def _announce(self, around: Surroundings, least_ns: int, limit_ns: int) -> None:
        """Hold the stream until `_let_go`, for at least `least_ns` and at most `limit_ns`."""
        self._ticket = (self._ticket + 1) & TICKET_MASK
        self._gate[1] = around.draw  # a hold that expires, since the call waits for the device, reads it too
        self._hold.set_argument(1, np.uint32(self._ticket))
        self._hold.set_argument(2, np.uint64(least_ns))
        self._hold.set_argument(3, np.uint64(limit_ns))
        self._words[3] = 0
        self._hold(self.stream.ptr)

    def _let_go(self) -> None:
        """Let the device go on."""
        self._gate[0] = self._ticket

    def _clock(self, word: int) -> float | None:
        """Return the SM clock in MHz from the stamp at this word."""
        return clock_mhz(int(self._words[word]), int(self._words[word + 1]), self.calibration.clock_step_ns)

    def _calibrate(self) -> dict[str, float]:
        """Measure the overhead of a pair of events, and correct for it: an empty kernel reads `EMPTY_KERNEL_NS`."""
        holds_ns: list[int] = []

        def read(enqueue: Callable[[], object]) -> float:
            duration_ns = self.cold(enqueue, "none").duration_ns
            holds_ns.append(int(self._words[2]))
            return duration_ns

        nothing = [read(lambda: None) for _ in range(OWN_COST_READINGS)]
        kernel = [read(lambda: self._empty(self.stream.ptr)) for _ in range(OWN_COST_READINGS)]
        empty_kernel_ns = middle_mean(kernel[8:])
        step_ns = max(math.gcd(*holds_ns), 1)
        self.calibration = replace(
            self.calibration,
            correction_ns=max(empty_kernel_ns - EMPTY_KERNEL_NS, 0.0),
            tick_ns=smallest_step([*nothing, *kernel]),
            clock_step_ns=step_ns,
        )
        flushes_ns = []
        for _ in range(FLUSH_READINGS):
            self.cold(lambda: None)
            flushes_ns.append(int(self._words[5]))
        self.calibration = replace(self.calibration, flush_least_ns=FLUSH_LEAST_SHARE * min(flushes_ns))
        return {
            "empty_events_ns": middle_mean(nothing[8:]),
            "empty_kernel_ns": empty_kernel_ns,
            "clock_step_ns": float(step_ns),
            "tick_ns": self.calibration.tick_ns,
        }


def _disagreement(events_ns: float, marks_ns: int, host_ns: int) -> str:
    """Return how the two clocks of a frame, and the host's, contradict one another; empty where they agree."""
    if not CLOCKS_LEAST_NS <= marks_ns - events_ns <= CLOCKS_MOST_NS + events_ns:
        return f"{CLOCKS_DISAGREE}: {events_ns:.0f} ns by events, {marks_ns} ns by the device's clock around them"
    if host_ns < events_ns - CLOCKS_MOST_NS:
        return f"{CLOCKS_DISAGREE}: {events_ns:.0f} ns by events, within {host_ns} ns of the host's clock"
    return ""


def middle_mean(durations_ns: Sequence[float]) -> float:
    """Return the mean of the middle half: unmoved by outliers, and between two levels where readings are at both."""
    quarter = len(durations_ns) // 4
    return fmean(sorted(durations_ns)[quarter : len(durations_ns) - quarter])


def clock_mhz(cycles: int, duration_ns: int, step_ns: int) -> float | None:
    """Return the clock from two counters' differences, or None where the time's steps are too coarse for it."""
    return cycles / duration_ns * 1e3 if duration_ns >= LEAST_CLOCK_STEPS * step_ns else None
