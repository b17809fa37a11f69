"""The CUDA back end: measures on one device."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.built_in import CUDA
from cuprof.backends.contract import Backend, Frame
from cuprof.backends.cuda.binding import CudaRunnable
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.presence import find_facts, require_device
from cuprof.backends.cuda.session import CudaSession
from cuprof.backends.cuda.timing import Work
from cuprof.backends.device_state import find_other_processes
from cuprof.builds import Build, BuildPool
from cuprof.builds.compilers import COMPILERS
from cuprof.builds.languages import list_builds
from cuprof.builds.nvrtc import load_nvrtc
from cuprof.core.errors import BuildError
from cuprof.core.records import Calibration, DeviceFacts, Measure
from cuprof.families import Program, Signature, Variant

FMA_BLOCKS, FMA_THREADS, FMA_STEPS, FMA_CHAINS = 8, 256, 4096, 4
"""For the arithmetic rate: blocks per multiprocessor, threads per block, steps per thread, independent chains per
step."""
READ_BLOCKS = (1, 2, 3, 4, 6, 8, 16)
"""Numbers of 512-thread blocks per multiprocessor that the calibration tries; the best one gives the read bandwidth."""


class CudaBackend(Backend[CudaRunnable]):
    """One CUDA device, chosen by ordinal. Opening it makes its primary context current in this thread.

    Raises as `require_device` and `CudaDevice` do.
    """

    spec = CUDA
    sessions = CudaSession

    def __init__(self, index: int | None = None, cache: BuildPool | None = None) -> None:
        require_device(index or 0)
        self.device = CudaDevice(index or 0, cache)
        self.cache = self.device.cache
        self._facts: DeviceFacts | None = None

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
        if self._facts is None:
            self._facts = find_facts(self.device.index)
        return self._facts

    def warm_up(self) -> None:
        """Start a compiler, load cuprof's own kernels, and measure what timing itself costs."""
        COMPILERS.prepare((load_nvrtc,))
        with self.device.errors("prepare the timer"):
            _ = self.device.timer

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
    return frame.reading().duration_ns
