"""The buffers of one problem in host memory, and the variants that are prepared on them."""

from __future__ import annotations

import gc
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns, perf_counter_ns

import numpy as np

from cuprof.backends.call import prepare_call
from cuprof.backends.contract import (
    SCRATCH_ALIGNMENT,
    Draws,
    Frame,
    Reading,
    ReadingOptions,
    Session,
    first_draw,
    own_views,
)
from cuprof.backends.cpu.caches import Caches
from cuprof.backends.cpu.compilations import Compilations
from cuprof.backends.cpu.memory import HostMemory
from cuprof.backends.declared import find_mismatch
from cuprof.backends.invoke import bind, load_library
from cuprof.builds import BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import BuildError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Measure
from cuprof.families import Arrays, Invoke, Program, Reduced, Signature, Variant
from cuprof.families.program import as_scalar

EARLY = 64
"""Read this many random elements of a result before copying it all. If a tenth is still to be written, this shows it
with a probability of 99.9 %."""


@dataclass
class CpuRunnable:
    """A variant ready to run."""

    call: Callable[[], object]
    deliver: Callable[[], object] | None = None
    """Copies returned results into the outputs; see `cuprof.families.Call`."""
    build: BuildFacts = field(default_factory=BuildFacts)
    steps: int = 1
    launch_phases: int = 1


class CpuSession(Session[CpuRunnable]):
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
    ) -> CpuRunnable:
        """Build the variant's library, or let it prepare itself (compile, plan), once and untimed."""
        if program is not None:
            return self._prepare_library(variant, program, text)
        if "numba" in variant.requires:
            import numba

            self.compilations.install(numba)
            numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        started = monotonic_ns()
        call, deliver = prepare_call(variant, problem, tunables, own_views(self.inputs), own_views(self.outputs))
        return CpuRunnable(call, deliver, BuildFacts(build_ns=monotonic_ns() - started))

    def _prepare_library(self, variant: Variant, program: Program, text: str) -> CpuRunnable:
        """Build a shared library of the variant's source and bind its functions to the arrays."""
        if not variant.compiler:
            raise BuildError(f'{variant.name}: a source for the CPU names its compiler, compiler="g++" or "gcc"')
        started = monotonic_ns()
        built, cached = self.cache.compile(NativeBuild.of(variant, program, text, "library"))
        library = load_library(built.image, variant.name)
        arrays = {**self.inputs, **self.outputs, **self._lay_out(program)}
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
            for output, buffer in program.results.items():
                if isinstance(buffer, str):
                    self.outputs[output].reshape(-1)[:] = arrays[buffer].reshape(-1)[: self.outputs[output].size]

        def deliver() -> None:
            for output, parts in program.results.items():
                if isinstance(parts, Reduced):
                    target = self.outputs[output]
                    target[...] = parts.put_together(arrays[parts.buffer], target.shape)

        return CpuRunnable(call, deliver, BuildFacts(cached=cached, build_ns=monotonic_ns() - started, log=built.log))

    def _lay_out(self, program: Program) -> dict[str, np.ndarray]:
        """Return a program's scratch arrays as parts of the arena."""
        found, start = {}, 0
        for name, spec in program.scratch.items():
            found[name] = self.scratch[start : start + spec.nbytes].view(spec.type).reshape(spec.shape)
            start += -(-spec.nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        return found

    def spoil(self, runnable: CpuRunnable, share: float, byte: int) -> None:
        """Overwrite one element of each output."""
        for array in self.outputs.values():
            place, flat = int(share * array.size), array.reshape(-1)
            flat[place : place + 1].view(np.uint8).fill(byte)

    def repeat(self, runnable: CpuRunnable, count: int) -> None:
        """Execute back to back; garbage may be collected again at the next writing."""
        for _ in range(count):
            runnable.call()
        gc.disable()  # no finaliser works between an execution and the look at its result

    def _fill(self, runnable: CpuRunnable, byte: int) -> None:
        gc.enable()
        super()._fill(runnable, byte)

    def fetch(self, runnable: CpuRunnable) -> dict[str, np.ndarray]:
        """Copy the outputs.

        Random elements are read first, or a thread that is still running could write just ahead of the copy.
        """
        if runnable.deliver:
            runnable.deliver()
        drawn = np.frombuffer(secrets.token_bytes(8 * EARLY), np.uint64)
        early = {}
        for name, array in self.outputs.items():
            if array.size:
                places = (drawn % np.uint64(array.size)).astype(np.intp)
                early[name] = places, array.reshape(-1)[places]
        copies = {name: array.copy() for name, array in self.outputs.items()}
        for name, (places, values) in early.items():
            copies[name].reshape(-1)[places] = values
        return copies

    def begin(self, runnable: CpuRunnable, measure: Measure, batch: int = 1, draw: Draws = first_draw) -> Frame:
        """Time one execution after reading other data (cold), or a batch back to back (hot)."""
        gc.enable()
        self.give(runnable, draw())
        if measure is Measure.COLD:
            self.caches.flush(self.options.flush)
        call = runnable.call
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
