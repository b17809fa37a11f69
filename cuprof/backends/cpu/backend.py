"""The CPU back end: measures on the host's processor.

Raise `timing_version` in registry.py when a change to the timing changes the meaning of a number.
"""

from __future__ import annotations

import math
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns, perf_counter_ns

import numpy as np
import psutil

from cuprof.backends.buffers import available_bytes
from cuprof.backends.contract import Backend, Draw, Draws, Frame, Reading, Runnable, Session
from cuprof.backends.cpu.compilations import Compilations
from cuprof.backends.cpu.memory import HostMemory
from cuprof.backends.cpu.processor import Caches, cache_bytes, cpu_name
from cuprof.backends.functions import bind, load_library
from cuprof.backends.registry import CPU
from cuprof.backends.switches import prepare_call
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import BuildError
from cuprof.core.point import Point
from cuprof.core.processes import count_cores
from cuprof.core.records import BuildFacts, Calibration, DeviceFacts, Measure
from cuprof.families import Invoke, Program, Variant
from cuprof.families.program import as_scalar

EARLY = 64
"""Read up to this many elements of a result, evenly spread, before copying it all."""
CALIBRATION_READINGS = 10
READING_LIMIT_NS = 1_000_000_000
CACHES = 8
MEMORY_SHARE = 8
"""Use at most 1/N of the free memory for the calibration."""
LEAST_READ_BYTES = 8 << 20


class CpuSession(Session[Runnable]):
    """Inputs and outputs of one problem in host memory.

    Each is between guard bytes. Otherwise a variant that writes past the end of an array would hit whatever the
    allocator put there: it could pass one run and crash the process in the next.
    """

    backend: CpuBackend
    memories = HostMemory

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> Runnable:
        """Build the variant's library, or let it prepare itself (compile, plan), once and untimed."""
        if program is not None:
            return self._prepare_library(variant, program, text)
        if "numba" in variant.requires:
            import numba

            self.backend.compilations.install(numba)
            numba.set_num_threads(min(self.backend.threads, numba.config.NUMBA_NUM_THREADS))
        started = monotonic_ns()
        call, deliver = prepare_call(variant, problem, tunables, self.inputs, self.outputs)
        build = BuildFacts(build_ns=monotonic_ns() - started)
        return Runnable(call, self.outputs, build, deliver=deliver)

    def _prepare_library(self, variant: Variant, program: Program, text: str) -> Runnable:
        """Build a shared library of the variant's source and bind its functions to the arrays."""
        if not variant.compiler:
            raise BuildError(f'{variant.name}: a source for the CPU names its compiler, compiler="g++" or "gcc"')
        started = monotonic_ns()
        built, cached = self.backend.cache.compile(NativeBuild.of(variant, program, text, "library"))
        library, (arrays, results) = load_library(built.image, variant.name), self._lay_out(program, text)
        actions = []
        for step in program.steps:
            assert isinstance(step, Invoke)
            given = (arrays[each].ctypes.data if isinstance(each, str) else as_scalar(each) for each in step.args)
            is_void = re.search(rf"\bvoid\s+{re.escape(step.function)}\s*\(", text) is not None
            actions.append(bind(library, step, list(given), is_void=is_void))

        def call() -> None:
            for action in actions:
                action()

        build = BuildFacts(cached=cached, build_ns=monotonic_ns() - started, log=built.log)
        return Runnable(call, build=build, **results)

    def fetch(self, runnable: Runnable) -> dict[str, np.ndarray]:
        """Copy the outputs.

        Some elements are read first, or a thread that is still running could write just ahead of the copy.
        """
        self._bring(runnable)
        early = {}
        for name, array in self.outputs.items():
            if runnable.results[name] is array and name not in self.unread:
                early[name] = np.array(array.reshape(-1)[:: array.size // EARLY + 1])
        found = super().fetch(runnable)
        for name, values in early.items():
            found[name].reshape(-1)[:: found[name].size // EARLY + 1] = values
        return found

    def begin(self, runnable: Runnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Time one execution after reading other data (cold), or a batch back to back (hot)."""
        self.give(runnable, draw())
        if measure is Measure.COLD:
            self.backend.caches.flush(self.options.flush)
        call = runnable.enqueue
        started = perf_counter_ns()
        for _ in range(batch):
            call()
        duration_ns = perf_counter_ns() - started
        return lambda: Reading(duration_ns / batch)


class CpuBackend(Backend[Runnable]):
    """The host's processor.

    Args:
        threads: threads that parallel variants may use (Numba's); all the process may run on by default, and at most.
    """

    spec = CPU
    sessions = CpuSession

    def __init__(self, threads: int | None = None) -> None:
        usable = count_cores()
        self.threads = min(threads or usable, usable)
        self.caches, self.compilations = Caches(), Compilations()

    def facts(self) -> DeviceFacts:
        """Return the processor's model and the memory of the host."""
        model = cpu_name()
        python, numpy = platform.python_version(), np.__version__
        return DeviceFacts(
            backend=self.spec.name,
            index=0,
            name=model,
            memory_bytes=psutil.virtual_memory().total,
            identity={"name": model, "threads": str(self.threads), "python": python, "numpy": numpy},
            details={
                "cores": psutil.cpu_count(logical=False),
                "threads": self.threads,
                "last_level_cache_bytes": cache_bytes(),
                "host": platform.node(),
                "system": platform.platform(),
                "python": python,
                "numpy": numpy,
            },
        )

    def calibrate(self) -> Calibration:
        """Measure read bandwidth on a buffer of `CACHES` times the last-level cache, as far as memory allows.

        Each thread reads a part of its own. NumPy's reductions let go of Python's lock and read as fast as memory
        gives, so nothing need be compiled.

        Raises:
            MemoryError: not even `LEAST_READ_BYTES` can be spared.
        """
        size = min(max(CACHES * cache_bytes(), 128 << 20), available_bytes() // MEMORY_SHARE)
        if size < LEAST_READ_BYTES:
            raise MemoryError(f"too little memory is free to measure bandwidth ({size * MEMORY_SHARE >> 20} MiB)")
        data = np.ones(size // 8)
        parts = np.array_split(data, self.threads)
        best_ns = math.inf  # the best of all, since a roof is what the machine can do when nothing disturbs it
        with ThreadPoolExecutor(self.threads) as pool:
            for reader in (np.max, np.sum):
                began = started = perf_counter_ns()
                for _ in range(CALIBRATION_READINGS):
                    list(pool.map(reader, parts))
                    ended = perf_counter_ns()
                    best_ns, started = min(best_ns, ended - started), ended
                    if ended > began + READING_LIMIT_NS:
                        break
        bandwidth = data.nbytes / (best_ns * 1e-9)
        return Calibration(self.spec.name, read_bandwidth=bandwidth, details={"read_bytes": data.nbytes})
