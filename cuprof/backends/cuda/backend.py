"""The CUDA back end: sessions on one device, whose buffers are refilled before executions and read after them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.contract import Backend, Draw, Draws, Frame, Reading, ReadingOptions, Session, Tally
from cuprof.backends.cuda.binding import STEPS_OF_A_CALL, CudaRunnable, ProgramBinder, claiming
from cuprof.backends.cuda.comparison import DeviceComparison, Results
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import call
from cuprof.backends.cuda.loading import load_program
from cuprof.backends.cuda.memory import CudaMemory
from cuprof.backends.cuda.presence import find_facts
from cuprof.backends.cuda.timing import EXPIRED, LAUNCH_PHASES, PENDING, Work
from cuprof.backends.device_state import find_other_processes
from cuprof.backends.registry import CUDA
from cuprof.backends.switches import prepare_call
from cuprof.builds import Build, BuildPool
from cuprof.builds.compilers import COMPILERS
from cuprof.builds.languages import list_builds
from cuprof.builds.nvrtc import load_nvrtc
from cuprof.core.errors import BuildError, DeviceMemoryError
from cuprof.core.records import BuildFacts, Calibration, Check, DeviceFacts, Measure
from cuprof.families import Arrays, Point, Program, Signature, Tolerances, Variant

REFILL_BLOCKS, REFILL_THREADS = 4, 512
"""Blocks a multiprocessor, and threads a block, of the kernel that writes inputs and outputs."""


class CudaSession(Session[CudaRunnable]):
    """Inputs, outputs and scratch of one problem in device memory."""

    memories = CudaMemory

    def __init__(
        self, backend: CudaBackend, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int
    ) -> None:
        self.device: CudaDevice = backend.device
        super().__init__(backend, signature, inputs, options, scratch_bytes)
        if options.cupti:
            self.device.timer.use_cupti()
        self._references: Sequence[Arrays] = ()
        self._refill: tuple[Callable[[], object], ...] = ()
        self._comparison: DeviceComparison | None = None

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> CudaRunnable:
        """Build and bind; `text` is the variant's source with its includes expanded."""
        if program is None:
            return self._prepare_call(variant, problem, tunables)
        buffers, results = self._lay_out(program, text)
        loaded = load_program(self.device, variant, program, text, self.signature)
        binder = ProgramBinder(self.device, loaded, program, self.signature, buffers)
        return binder.bind(results, graph=self.options.graph)

    def _prepare_call(self, variant: Variant, problem: Point, tunables: Point) -> CudaRunnable:
        """Let a variant prepare itself on views of the arrays that are its own."""
        started = time.monotonic_ns()
        self.device.claim()
        with self.device.errors(f"prepare {variant.name}"):
            function, deliver = prepare_call(variant, problem, tunables, self.inputs, self.outputs)
        self.device.find_runtimes()
        build = BuildFacts(build_ns=time.monotonic_ns() - started)
        enqueue, steps, phases = claiming(self.device, function), STEPS_OF_A_CALL, LAUNCH_PHASES
        return CudaRunnable(
            enqueue, self.outputs, build, steps, phases, deliver=deliver, launches=None, calls_host=True
        )

    def stock(self, sets: Sequence[Arrays], references: Sequence[Arrays] = ()) -> None:
        """Keep the contents of the sets on the device; one kernel then writes the drawn one."""
        self._references, self._comparison = references, None
        super().stock(sets)
        if self._sets or self.options.flush != "none":
            self._make_refill()

    def _make_refill(self) -> None:
        """Make the launch that writes inputs, outputs and scratch as the draw says."""
        kept = [array for name, array in self.outputs.items() if name not in self.restored]
        rows = [(array.data.ptr, array.nbytes, 0, 0) for array in (*kept, self.scratch) if array.nbytes]
        tables = []
        for name, array in self.restored.items() if self._sets else ():
            addresses = [contents[name].copy.data.ptr for contents in self._sets]
            tables.append(self.device.upload(np.array(addresses, np.uint64)))
            rows.append((array.data.ptr, array.nbytes, tables[-1].data.ptr, name in self.outputs))
        listed = self.device.upload(np.array(rows, np.uint64))
        blocks = REFILL_BLOCKS * self.device.multiprocessors
        given = [listed.data.ptr, np.uint32(len(rows)), self.device.timer.draw_address]
        launch = self.device.launch("refill", blocks, REFILL_THREADS, given, owners=[listed, *tables])
        self._refill = (partial(launch, self.device.stream.ptr),)

    def expect(self, runnable: CudaRunnable, tolerances: Sequence[Tolerances]) -> Callable[[], Tally] | None:
        """Compare the results on the device where their types allow it and its memory suffices."""
        with suppress(DeviceMemoryError), self.device.errors("compare the results"):
            if comparison := self._compared_with(runnable):
                address = self.device.timer.draw_address
                made = runnable.verification = comparison.verification(self._places(runnable), tolerances, address)
                return made.read
        return None

    def execute(self, runnable: CudaRunnable, *draws: Draw) -> None:
        """Execute once as each draw says, and wait."""
        with self.device.errors("execute"):
            self.device.timer.compare([self._work(runnable, draw, timed=False) for draw in draws])

    def put_back(self, *, settings: bool = True) -> bool:
        """Make the device current again, with the limits, cache configuration and L2 cache it had."""
        super().put_back()
        return self.device.put_back(settings=settings)

    def wait(self) -> None:
        """Wait for all streams of the context, and for work that a thread may still launch."""
        super().wait()
        with self.device.errors("wait for the device"):
            call((*self.device.driver.cuCtxSynchronize(),), "wait for the device")

    def _work(self, runnable: CudaRunnable, draw: Draw, *, timed: bool = True) -> Work:
        """Return the next execution with the work around it, and record which inputs it gets."""
        calls_host, blocking = runnable.calls_host, self.options.blocking and runnable.holds_back
        known, self._in_place = self._in_place, self._sets[draw.inputs] if self._sets else self._in_place
        after: tuple[Callable[[], object], ...] = ()
        if draw.compare and (found := runnable.verification):
            delivery = (runnable.deliver,) if runnable.deliver else ()
            after = (*delivery, *(found.glances if timed and calls_host else ()), *found.launches)
        word = draw.inputs | draw.fill << 16 | (not draw.fresh and known is self._in_place) << 24
        return Work(runnable.enqueue, word, (*self._refill, *runnable.setup), after, calls_host, blocking)

    def _places(self, runnable: CudaRunnable) -> Results:
        return {name: (runnable.results[name].data.ptr, spec) for name, spec in self.signature.outputs.items()}

    def _compared_with(self, runnable: CudaRunnable) -> DeviceComparison | None:
        """Return the references on the device, copied there at first use; None if the device cannot compare them."""
        if runnable.reduced:
            return None
        comparable = (DeviceComparison.fits(self.signature.outputs, each) for each in self._references)
        if self._comparison is None and self._references and all(comparable):
            self._comparison = DeviceComparison(self.device, self._references)
        return self._comparison

    def check_in_place(self, runnable: CudaRunnable, tolerance: Tolerances, seed: int) -> Check | None:
        """Return the passed check where the device finds everything right; None leaves the verdict to the host."""
        self._bring(runnable)
        with suppress(DeviceMemoryError), self.device.errors("compare the results"):
            if comparison := self._compared_with(runnable):
                return comparison.check(self._places(runnable), tolerance, seed)
        return None

    def checksum(self, runnable: CudaRunnable) -> tuple[int, ...]:
        """Return a checksum of each result."""
        self._bring(runnable)
        places = self._places(runnable)
        parts = {name: (places[name][0], held) for name, (_, held) in runnable.reduced.items()}
        with self.device.errors("take checksums of the results"):
            found = ((address, spec.nbytes) for address, spec in {**places, **parts}.values())
            return tuple(self.device.checksums(tuple(found)))

    def begin(self, runnable: CudaRunnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Execute and time; see `CudaTimer` for each measure."""
        timer, flush = self.device.timer, self.options.flush
        with self.device.errors("execute"):
            if measure is Measure.TOTAL:
                work = self._work(runnable, draw())
                reading = timer.total(*self._transfers(runnable), work)
                return lambda: reading
            if measure is Measure.HOT:
                frame = timer.hot(self._work(runnable, draw()), batch)
            elif batch > 1:
                frame = timer.cold_over_phases(lambda: self._work(runnable, draw()), runnable.launches, flush)
            else:
                frame = timer.cold(self._work(runnable, draw()), flush)
        blocking = self.options.blocking and runnable.holds_back
        return partial(self._read, runnable, frame, blocking)

    def in_flight(self, runnable: CudaRunnable) -> int:
        """Return 2 where the host may enqueue a frame while the device executes another: one launch, and no set-up."""
        is_plain = runnable.steps == 1 and not (runnable.setup or runnable.calls_host or self.options.cupti)
        return PENDING if is_plain and runnable.holds_back else 1

    def _read(self, runnable: CudaRunnable, frame: Frame, blocking: bool) -> Reading:
        """Return a frame's reading, and count those in a row for which the device did not wait."""
        with self.device.errors("execute"):
            reading = frame()
        if blocking:  # other variants are read in between, so each keeps a count of its own
            runnable.expired = runnable.expired + 1 if reading.suspect == EXPIRED else 0
        return reading

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of event times; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.device.timer.tick_ns

    def close(self) -> None:
        """Free the session's device and page-locked memory."""
        self._refill, self._comparison = (), None
        super().close()


FMA_BLOCKS, FMA_THREADS, FMA_STEPS, FMA_CHAINS = 8, 256, 4096, 4
"""For the arithmetic rate: blocks per multiprocessor, threads per block, steps per thread, independent chains per
step."""
READ_BLOCKS = (1, 2, 3, 4, 6, 8, 16)
"""Numbers of 512-thread blocks per multiprocessor that the calibration tries; the best one gives the read bandwidth."""


class CudaBackend(Backend[CudaRunnable]):
    """One CUDA device, chosen by ordinal. Opening it makes its primary context current in this thread.

    Raises as `find_facts` and `CudaDevice` do.
    """

    spec = CUDA
    sessions = CudaSession

    def __init__(self, index: int | None = None, cache: BuildPool | None = None) -> None:
        self._facts = find_facts(index)
        self.device = CudaDevice(index or 0, cache)
        self.cache = self.device.cache

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
        return self._facts

    @classmethod
    def begin_to_open(cls) -> None:
        """Start a compiler."""
        COMPILERS.prepare((load_nvrtc,))

    def take_up(self) -> None:
        """Make the device current in this thread."""
        self.device.claim()
        self.device.cupy.cuda.runtime.free(0)  # without a call of its own the runtime may not have done it yet

    def warm_up(self) -> None:
        """Load cuprof's own kernels."""
        with self.device.errors("prepare the timer"):
            _ = self.device.idle_timer

    def calibrate(self) -> Calibration:
        """Measure read bandwidth on a buffer of at least 16 times the L2 cache, and what timing itself costs."""
        device, timer = self.device, self.device.timer
        free, _ = device.cupy.cuda.runtime.memGetInfo()
        cache_bytes = device.attribute("L2_CACHE_SIZE")
        size = min(max(16 * cache_bytes, 1 << 30), free // 4) // 4096 * 4096
        buffer = device.cupy.empty(size, np.uint8)
        buffer.fill(1)
        others = find_other_processes(self.facts().uuid)
        readings = [[_time(timer.cold(Work(read))) for _ in range(13)] for read in self._readers(buffer)]
        part = buffer[: cache_bytes // 4 // 4096 * 4096]
        cached_ns = min(_time(timer.hot(Work(read), 20)) for read in self._readers(part) for _ in range(5))
        return Calibration(
            backend=self.spec.name,
            read_bandwidth=size / (min(statistics.median(each[3:]) for each in readings) * 1e-9),
            event_overhead_ns=timer.correction_ns,
            details={
                "read_bytes": size,
                "other_processes": others,
                "cache_bandwidth": part.nbytes / (cached_ns * 1e-9),
                "fma_rate": self._fma_rate(),
                **timer.own_costs,
            },
        )

    def _readers(self, buffer: Any) -> Iterator[Callable[[], None]]:
        """Yield what reads a buffer, for each of `READ_BLOCKS`."""
        for blocks in READ_BLOCKS:
            launch = self.device.timer.reader(buffer, self.device.multiprocessors * blocks)
            yield partial(launch, self.device.stream.ptr)

    def _fma_rate(self) -> float:
        """Return float32 operations a second of fused multiply-adds alone, two operations each."""
        device = self.device
        sink = device.cupy.zeros(1, np.float32)
        blocks = FMA_BLOCKS * device.multiprocessors
        arguments = [np.float32(0.999), np.uint32(FMA_STEPS), sink.data.ptr]
        enqueue = partial(device.launch("multiply_add", blocks, FMA_THREADS, arguments), device.stream.ptr)
        shortest_ns = min(_time(device.timer.cold(Work(enqueue))) for _ in range(5))
        return 2.0 * FMA_CHAINS * FMA_STEPS * FMA_THREADS * blocks / (shortest_ns * 1e-9)

    def correction_ns(self, measure: Measure) -> float:
        """Return the cost of an event pair around kernels, as this process measured it; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.device.timer.correction_ns

    def errors(self, what: str) -> AbstractContextManager[None]:
        """Turn exceptions on the device into cuprof's."""
        return self.device.errors(what)

    def list_builds(self, signature: Signature, variant: Variant, program: Program, text: str) -> Sequence[Build]:
        """Return what NVRTC, nvcc or Triton compiles for a program; see `Backend.list_builds`."""
        with suppress(BuildError):
            return [*list_builds(variant, program, text, signature, self.device.arch).values()]
        return ()


def _time(frame: Frame) -> float:
    return frame().duration_ns
