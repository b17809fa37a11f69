"""How CUDA executions are timed; docs/measurement.md gives each choice its reason.

Raise `timing_version` in registry.py when a change here changes the meaning of a number.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from random import Random
from statistics import fmean
from time import perf_counter_ns
from typing import Any

import numpy as np

from cuprof.backends.contract import NOT_COLD, Frame, Reading, smallest_step
from cuprof.backends.cuda.cupti import CuptiRecords, get_records, span_ns
from cuprof.backends.cuda.driver import PackedLaunch, call

PENDING = 2
"""Frames of one launch that may be pending at once: one that is executed, and one that the host enqueues meanwhile.
With three frames and more behind it, readings of a short kernel scatter by 0.4 µs and are 0.6 µs too long; with one
behind it they are what they are alone (measured on H200s)."""
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
OWN_COST_AT_ONCE = 16
EMPTY_KERNEL_NS = 350.0
"""The assumed duration of an empty kernel. By its own clock it lasts 0, by CUPTI's time stamps 0.6 µs, the difference
being the device's ramp up and down around it. With this value spins of known length read about as much too long as
kernels read shorter than by CUPTI, at most 0.4 µs either way (measured on H200s)."""
LEAST_NS = 1.0
"""Report at least this for a reading that its correction would make zero or negative."""
EXPIRED = "the device did not wait for the host: the call synchronises, or the host was held up"
WORDS = 8
"""Words of one slot: the gate and the draw; the hold's stamp (cycles, ns, expired); the flush's stamp (cycles, ns)."""

Action = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """One execution and the untimed work around its frame on the stream.

    Args:
        enqueue: puts the execution on the stream.
        draw: the word with the drawn inputs for the kernels of `before` and `after`. The hold hands it over once
            everything is enqueued, so no earlier work can find the inputs that count.
        before: enqueued before the flush: writes the inputs and overwrites the outputs.
        after: enqueued after the end of the frame: compares the results.
        calls_host: code of others enqueues the execution, so its frame ends before the next one begins.
        blocking: hold the device until everything is enqueued.
    """

    enqueue: Action
    draw: int = 0
    before: tuple[Action, ...] = ()
    after: tuple[Action, ...] = ()
    calls_host: bool = False
    blocking: bool = True


class Slot:
    """What one pending frame has to itself: words that host and device share, launches that fill them, two events."""

    def __init__(self, timer: CudaTimer, words: np.ndarray) -> None:
        device, address = timer.device, words.ctypes.data
        self.words, self.gate = words, words[:1].view(np.uint32)
        stamps = [np.uint64(0), np.uint64(0), address + 8, timer.draw_address]
        self._hold = device.launch("hold", 1, 1, [address, *stamps])
        self._limits = (0, 0)
        self.flush = timer.reader(timer.flush_buffer, 4 * device.multiprocessors, address + 32)
        flags = device.driver.CUevent_flags.CU_EVENT_DEFAULT
        self.start, self.end = (call(device.driver.cuEventCreate(flags), "create an event") for _ in range(2))
        self.frame: Frame | None = None

    def close(self, stream: int, draw: int, least_ns: int, limit_ns: int) -> None:
        """Hold the stream until `gate[0]` is 1, for at least `least_ns` and at most `limit_ns`."""
        self.gate[0], self.gate[1] = 0, draw  # a hold that expires, since the call waits for the device, reads it too
        self.words[3] = self.words[5] = 0
        if self._limits != (least_ns, limit_ns):
            self._limits = least_ns, limit_ns
            self._hold.set_argument(1, np.uint64(least_ns))
            self._hold.set_argument(2, np.uint64(limit_ns))
        self._hold(stream)


class CudaTimer:
    """Frames executions on the legacy default stream with events, holds and flushes.

    A cold frame: hold → inputs and outputs written → flush → start event → execution → end event → results compared.
    The hold keeps the device waiting until all of it is enqueued, so the events surround device work only. The inputs
    to write become known when the hold releases. Work launched on the default stream, or on any stream that blocks with
    it, is within the frame by the stream's own rules.

    A frame of one launch may be pending while the host enqueues the next one, which it does while the device writes and
    flushes. A further one first waits for the oldest.

    Args:
        device: the `CudaDevice`, current in this thread.

    Attributes:
        own_costs: what `calibrate` has found; empty before.
        correction_ns: subtracted from the time between two events.
        tick_ns: the step of event times.
        clock_step_ns: the step of the device's nanosecond counter.
        flush_least_ns: a flush that takes less has not read all that it has to.
    """

    def __init__(self, device: Any) -> None:
        self.device, self.driver, self.stream = device, device.driver, device.stream
        self._random = Random()  # a generator of its own, which no variant can seed
        size = max(FLUSH_FACTOR * device.attribute("L2_CACHE_SIZE"), 32 << 20) // 4096 * 4096
        self.flush_buffer = device.cupy.empty(size, np.uint8)
        self.flush_buffer.fill(1)
        self._drawn = device.cupy.zeros(2, np.uint32)
        self.draw_address = int(self._drawn.data.ptr)
        """Where the kernels around an execution find its draw."""
        words = device.pinned_array((PENDING, WORDS), np.dtype(np.uint64))
        words[:] = 0
        self._slots = [Slot(self, each) for each in words]
        self._turns = cycle(self._slots)
        self._empty = device.launch("empty", 1, 1, [])
        self.cupti: CuptiRecords | None = None
        self.clock_step_ns = 1
        self.correction_ns = self.tick_ns = self.flush_least_ns = 0.0
        self.own_costs: dict[str, float] = {}

    def reader(self, buffer: Any, blocks: int, stamp_address: int = 0) -> PackedLaunch:
        """Return a launch that reads the whole buffer (a CuPy array of a multiple of 16 bytes)."""
        sink, words = self.draw_address + 4, np.uint64(buffer.nbytes // 16)
        arguments = [buffer.data.ptr, words, sink, stamp_address]
        return self.device.launch("read_through", blocks, 512, arguments)  # type: ignore[no-any-return]

    @property
    def _hold_least_ns(self) -> int:
        """Return how long a hold lasts at least from which the SM clock is read."""
        return max(HOLD_LEAST_NS, CLOCK_STEPS * self.clock_step_ns)

    def cold(self, work: Work, flush: str = "clean") -> Frame:
        """Begin one execution with the caches full of other data.

        Args:
            flush: "clean" reads other data, "dirty" writes it (as nvbench and Triton do: the execution then pays for
                writing those lines back), "none" leaves the caches as they are.
        """
        return self._begin(work, 1, flush, 0 if flush == "clean" else self._hold_least_ns)

    def cold_over_phases(self, draw: Callable[[], Work], launches: int | None, flush: str = "clean") -> Frame:
        """Time `LAUNCH_PHASES` executions, each with cold caches and one launch further on; their mean is read.

        Args:
            draw: gives each execution with its surroundings.
            launches: how many launches an execution makes; None where that is not known, as of a library: its
                executions then begin at phases drawn at random.
        """
        readings = []
        for _ in range(LAUNCH_PHASES):
            work = draw()
            own = 1 + (flush == "clean") + len(work.before) + len(work.after)
            step = (1 - own - (launches or 0)) % LAUNCH_PHASES
            if launches is None or flush == "dirty":
                step = self._random.randrange(LAUNCH_PHASES)
            for _ in range(step):
                self._empty(self.stream.ptr)
            readings.append(self.cold(work, flush)())
        return lambda: _mean(readings)

    def hot(self, work: Work, batch: int) -> Frame:
        """Time `batch` executions back to back; the duration is one execution's share."""
        frame = self._begin(work, batch, "none", self._hold_least_ns)
        frame()  # what is enqueued behind a batch would lengthen it
        return frame

    def total(
        self, uploads: Sequence[tuple[Any, np.ndarray]], downloads: Sequence[tuple[np.ndarray, Any]], work: Work
    ) -> Reading:
        """Time transfers and execution by the host's clock, from before the first copy until the last has arrived.

        Args:
            uploads: (device array, host array) copied before the execution.
            downloads: (host array, device array) copied after it.
        """
        stream, driver = self.stream.ptr, self.driver
        copied_up = [(target.data.ptr, source.ctypes.data, source.nbytes) for target, source in uploads]
        copied_down = [(target.ctypes.data, source.data.ptr, target.nbytes) for target, source in downloads]
        self._tell(work.draw)
        run_all(work.before)
        self.stream.synchronize()
        started = perf_counter_ns()
        for target, source, size in copied_up:
            call(driver.cuMemcpyHtoDAsync(target, source, size, stream), "copy inputs to the device")
        work.enqueue()
        for target, source, size in copied_down:
            call(driver.cuMemcpyDtoHAsync(target, source, size, stream), "copy results to the host")
        call((*driver.cuStreamSynchronize(stream),), "wait for the device")
        duration_ns = float(perf_counter_ns() - started)
        run_all(work.after)
        return Reading(duration_ns)

    def compare(self, works: Sequence[Work]) -> None:
        """Execute each, only for the comparison, and wait; nothing is flushed.

        A single one is framed like a timed one. Several get their draws in stream order instead, which costs the
        host a fifth of the time.
        """
        if len(works) == 1:
            self._begin(works[0], 1, "none", 0)()
        for work in works if len(works) > 1 else ():
            self._tell(work.draw)
            run_all(work.before)
            work.enqueue()
            gc.disable()
            try:
                run_all(work.after)
            finally:
                gc.enable()
        self.stream.synchronize()

    def use_cupti(self) -> None:
        """Take durations from CUPTI from now on; raises `MissingDependencyError` where it is not installed."""
        if self.cupti is None:
            self.cupti = get_records()
            self.correction_ns = self.tick_ns = 0.0

    def _begin(self, work: Work, count: int, flush: str, least_ns: int) -> Frame:
        stream, record, slot = self.stream.ptr, self.driver.cuEventRecord, next(self._turns)
        if slot.frame is not None:  # the oldest that is pending
            slot.frame()
        if self.cupti:
            self.stream.synchronize()
            self.cupti.clear()
        slot.close(stream, work.draw, least_ns, HOLD_LIMIT_NS if work.blocking else 0)
        try:
            run_all(work.before)
            if flush == "clean":
                slot.flush(stream)
            elif flush == "dirty":
                self.driver.cuMemsetD8Async(self.flush_buffer.data.ptr, 0, self.flush_buffer.nbytes, stream)
            if self.cupti:
                self._empty(stream)
            record(slot.start, stream)
            for _ in range(count):
                work.enqueue()
            gc.disable()  # no finaliser launches anything between the end of the frame and the comparison
            record(slot.end, stream)
            run_all(work.after)
        finally:
            gc.enable()
            slot.gate[0] = 1
        frame = slot.frame = cache(partial(self._read, slot, work, count, flush))
        if work.calls_host or self.cupti:
            frame()
        return frame

    def _read(self, slot: Slot, work: Work, count: int, flush: str) -> Reading:
        """Wait for the end of a slot's frame, and return its reading."""
        driver, words = self.driver, slot.words
        slot.frame = None
        call((*driver.cuEventSynchronize(slot.end),), "execute")
        suspect = ""
        elapsed_ns = float(call(driver.cuEventElapsedTime(slot.start, slot.end), "read events")) * 1e6
        if self.cupti:
            self.stream.synchronize()
            elapsed_ns = span_ns(self.cupti.read())
        elif work.blocking and int(words[3]) & 1:
            self.stream.synchronize()
            suspect = EXPIRED
        if flush == "clean" and int(words[5]) < self.flush_least_ns:
            suspect = f"{NOT_COLD}: {words[5]} ns, not {self.flush_least_ns / FLUSH_LEAST_SHARE:.0f}"
        stamp = 4 if flush == "clean" else 1
        clock = clock_mhz(int(words[stamp]), int(words[stamp + 1]), self.clock_step_ns)
        duration_ns = max(elapsed_ns - self.correction_ns, LEAST_NS) / count
        return Reading(duration_ns, clock if flush == "clean" or work.blocking else None, suspect)

    def _tell(self, draw: int) -> None:
        """Write the drawn inputs and fill to the device, in stream order, for the executions that follow."""
        call((*self.driver.cuMemsetD32Async(self.draw_address, draw, 1, self.stream.ptr),), "draw inputs")

    def _sample(self, enqueue: Action, count: int, flush: str = "none") -> list[Reading]:
        """Return readings of one execution, with a frame pending behind each."""
        frames = [self.cold(Work(enqueue), flush) for _ in range(count)]
        return [frame() for frame in frames]

    def calibrate(self) -> None:
        """Measure the overhead of a pair of events, and correct for it: an empty kernel reads `EMPTY_KERNEL_NS`."""

        holds_ns: list[int] = []

        def read(enqueue: Action) -> list[float]:
            found: list[float] = []
            while len(found) < OWN_COST_READINGS:
                found += [each.duration_ns for each in self._sample(enqueue, OWN_COST_AT_ONCE)]
                holds_ns.extend(int(slot.words[2]) for slot in self._slots)
            return found

        nothing, kernel = read(lambda: None), read(lambda: self._empty(self.stream.ptr))
        empty_kernel_ns = middle_mean(kernel[8:])
        self.clock_step_ns = max(math.gcd(*holds_ns), 1)
        self.correction_ns = max(empty_kernel_ns - EMPTY_KERNEL_NS, 0.0)
        self.tick_ns = smallest_step([*nothing, *kernel])
        flushes_ns = []
        for _ in range(FLUSH_READINGS):
            self._sample(lambda: None, PENDING, "clean")
            flushes_ns += [int(slot.words[5]) for slot in self._slots]
        self.flush_least_ns = FLUSH_LEAST_SHARE * min(flushes_ns)
        self.own_costs = {
            "empty_events_ns": middle_mean(nothing[8:]),
            "empty_kernel_ns": empty_kernel_ns,
            "clock_step_ns": float(self.clock_step_ns),
            "tick_ns": self.tick_ns,
        }


def run_all(actions: Sequence[Action]) -> None:
    """Call each, in order."""
    for action in actions:
        action()


def _mean(readings: Sequence[Reading]) -> Reading:
    """Return the mean of several readings; one that should not count spoils all."""
    clocks = [reading.sm_clock_mhz for reading in readings if reading.sm_clock_mhz is not None]
    return Reading(
        fmean(reading.duration_ns for reading in readings),
        fmean(clocks) if clocks else None,
        next((reading.suspect for reading in readings if reading.suspect), ""),
    )


def middle_mean(durations_ns: Sequence[float]) -> float:
    """Return the mean of the middle half: unmoved by outliers, and between two levels where readings are at both."""
    quarter = len(durations_ns) // 4
    return fmean(sorted(durations_ns)[quarter : len(durations_ns) - quarter])


def clock_mhz(cycles: int, duration_ns: int, step_ns: int) -> float | None:
    """Return the clock from two counters' differences, or None where the time's steps are too coarse for it."""
    return cycles / duration_ns * 1e3 if duration_ns >= LEAST_CLOCK_STEPS * step_ns else None
