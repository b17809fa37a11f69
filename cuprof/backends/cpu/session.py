"""The buffers of one problem in host memory, and the variants that are prepared on them."""

from __future__ import annotations

import gc
import re
import secrets
from time import monotonic_ns, perf_counter_ns

import numpy as np

from cuprof.backends.call import prepare_call
from cuprof.backends.contract import Draw, Draws, Frame, Reading, ReadingOptions, Runnable, Session
from cuprof.backends.cpu.compilations import Compilations
from cuprof.backends.cpu.memory import HostMemory
from cuprof.backends.cpu.processor import Caches
from cuprof.backends.declared import find_mismatch
from cuprof.backends.invoke import bind, load_library
from cuprof.builds import BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import BuildError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Measure
from cuprof.families import Arrays, Invoke, Program, Signature, Variant
from cuprof.families.program import as_scalar

EARLY = 64
"""Read this many random elements of a result before copying it all. If a tenth is still to be written, this shows it
with a probability of 99.9 %."""


class CpuSession(Session[Runnable]):
    """Inputs and outputs of one problem in host memory.

    Each is between guard bytes. Otherwise a variant that writes past the end of an array would hit whatever the
    allocator put there: it could pass one run and crash the process in the next.
    """

    def __init__(
        self,
        caches: Caches,
        compilations: Compilations,
        threads: int,
        signature: Signature,
        inputs: Arrays,
        options: ReadingOptions,
        scratch_bytes: int = 0,
    ) -> None:
        super().__init__(HostMemory(), signature, inputs, options, scratch_bytes)
        self.caches, self.compilations, self.threads = caches, compilations, threads
        self.cache = BuildPool()

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> Runnable:
        """Build the variant's library, or let it prepare itself (compile, plan), once and untimed."""
        if program is not None:
            return self._prepare_library(variant, program, text)
        if "numba" in variant.requires:
            import numba

            self.compilations.install(numba)
            numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        started = monotonic_ns()
        call, deliver = prepare_call(variant, problem, tunables, self.inputs, self.outputs)
        build = BuildFacts(build_ns=monotonic_ns() - started)
        return Runnable(call, self.outputs, build, deliver=deliver)

    def _prepare_library(self, variant: Variant, program: Program, text: str) -> Runnable:
        """Build a shared library of the variant's source and bind its functions to the arrays."""
        if not variant.compiler:
            raise BuildError(f'{variant.name}: a source for the CPU names its compiler, compiler="g++" or "gcc"')
        started = monotonic_ns()
        built, cached = self.cache.compile(NativeBuild.of(variant, program, text, "library"))
        library, arrays = load_library(built.image, variant.name), self._lay_out(program)
        if fault := find_mismatch(program, text, {name: array.dtype for name, array in arrays.items()}):
            raise LaunchError(fault)
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
        return Runnable(call, build=build, **self._find_results(program, arrays))

    def run(self, runnable: Runnable, count: int = 1) -> None:
        """Execute back to back; garbage may be collected again at the next writing."""
        super().run(runnable, count)
        gc.disable()  # no finaliser works between an execution and the look at its result

    def _fill(self, runnable: Runnable, byte: int) -> None:
        gc.enable()
        super()._fill(runnable, byte)

    def fetch(self, runnable: Runnable) -> dict[str, np.ndarray]:
        """Copy the outputs.

        Random elements are read first, or a thread that is still running could write just ahead of the copy.
        """
        self._bring(runnable)
        drawn = np.frombuffer(secrets.token_bytes(8 * EARLY), np.uint64)
        early = {}
        for name, array in self.outputs.items():
            if array.size and runnable.results[name] is array:
                places = (drawn % np.uint64(array.size)).astype(np.intp)
                early[name] = places, array.reshape(-1)[places]
        found = super().fetch(runnable)
        for name, (places, values) in early.items():
            found[name].reshape(-1)[places] = values
        return found

    def begin(self, runnable: Runnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Time one execution after reading other data (cold), or a batch back to back (hot)."""
        gc.enable()
        self.give(runnable, draw())
        if measure is Measure.COLD:
            self.caches.flush(self.options.flush)
        call = runnable.enqueue
        started = perf_counter_ns()
        for _ in range(batch):
            call()
        duration_ns = perf_counter_ns() - started
        gc.disable()  # no finaliser works between the clock and the look at the result
        return Frame.ended(Reading(duration_ns / batch))

    def close(self) -> None:
        """Drop the arrays."""
        gc.enable()
        super().close()
