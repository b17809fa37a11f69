"""The buffers of one problem in host memory, and the variants that are prepared on them."""

from __future__ import annotations

import gc
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns, perf_counter_ns

import numpy as np

from cuprof.backends.call import prepare_call
from cuprof.backends.contract import (
    POISON_BYTE,
    Draw,
    Draws,
    Frame,
    InputSet,
    Reading,
    ReadingOptions,
    Session,
    first_draw,
    own_views,
)
from cuprof.backends.cpu.caches import Caches
from cuprof.backends.cpu.compilations import Compilations
from cuprof.backends.declared import find_mismatch
from cuprof.backends.guarded import GuardedArray
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
    ) -> None:
        self.caches, self.compilations, self.threads, self.options = caches, compilations, threads, options
        self.cache = BuildPool()
        self._guarded: dict[str, GuardedArray] = {}
        self.inputs = {
            name: self._allocate(f"input {name}", array.shape, array.dtype)
            for name, array in inputs.items()
            if name not in signature.outputs
        }
        self.outputs = {
            name: self._allocate(f"output {name}", spec.shape, spec.type) for name, spec in signature.outputs.items()
        }
        self._sets: list[Arrays] = []
        self._write(inputs)

    def _allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        self._guarded[label] = GuardedArray(shape, dtype)
        return self._guarded[label].array

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
        scratch = {name: np.empty(array.shape, array.type) for name, array in program.scratch.items()}
        arrays = {**self.inputs, **self.outputs, **scratch}
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

    def poison(self, runnable: CpuRunnable, byte: int = POISON_BYTE) -> None:
        """Overwrite the outputs; garbage of the last execution may be collected now."""
        gc.enable()
        self._fill(byte)

    def spoil(self, runnable: CpuRunnable, share: float, byte: int) -> None:
        """Overwrite one element of each output."""
        for array in self.outputs.values():
            place, flat = int(share * array.size), array.reshape(-1)
            flat[place : place + 1].view(np.uint8).fill(byte)

    def repeat(self, runnable: CpuRunnable, count: int) -> None:
        """Execute back to back."""
        gc.enable()
        for _ in range(count):
            runnable.call()

    def stock(self, sets: Sequence[InputSet]) -> int:
        """Keep the contents of the sets; where the caches are left alone, nothing is written before an execution."""
        is_in_place = not sets[0].inputs.keys().isdisjoint(self.outputs)
        self._sets = [] if self.options.flush == "none" and not is_in_place else [each.inputs for each in sets]
        return len(self._sets)

    def restock(self, number: int, inputs: Arrays) -> None:
        """Keep other contents as the set of this number."""
        self._sets[number] = inputs

    def execute(self, runnable: CpuRunnable, *draws: Draw) -> None:
        """Execute once as each draw says."""
        for draw in draws:
            self._give(draw)
            runnable.call()
            gc.disable()

    def _give(self, draw: Draw) -> None:
        """Write the drawn inputs and outputs; garbage of the last execution may be collected now."""
        gc.enable()
        if not self._sets:
            return
        self._write(self._sets[draw.inputs])
        self._fill(draw.fill)

    def _write(self, contents: Arrays) -> None:
        for name, array in contents.items():
            (self.inputs if name in self.inputs else self.outputs)[name][...] = array
        self._in_place = contents

    def _fill(self, byte: int) -> None:
        """Let outputs hold a byte, those that are worked on in place their contents."""
        for name, array in self.outputs.items():
            if name in self._in_place:
                array[...] = self._in_place[name]
            else:
                array.reshape(-1).view(np.uint8).fill(byte)

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs that were overwritten."""
        held = {name: np.asarray(self._in_place[name]) for name in self.inputs}
        return tuple(name for name, array in held.items() if not _same_bytes(self.inputs[name], array))

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return the arrays with damage next to them ("input x", "output y")."""
        return tuple(label for label, guarded in self._guarded.items() if not guarded.is_sound)

    def restore_inputs(self, inputs: Arrays) -> None:
        """Rewrite the inputs and all guard bytes."""
        self._write(inputs)
        for guarded in self._guarded.values():
            guarded.mend()

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
        self._give(draw())
        if measure is Measure.COLD:
            self.caches.flush(self.options.flush)
        return Frame.ended(Reading(self.clocked(runnable, batch) / batch))

    def clocked(self, runnable: CpuRunnable, count: int = 1) -> float:
        """Execute `count` times on the arrays as they are, and return the duration in ns."""
        call = runnable.call
        started = perf_counter_ns()
        for _ in range(count):
            call()
        duration_ns = perf_counter_ns() - started
        gc.disable()  # no finaliser works between the clock and the look at the result
        return duration_ns

    def close(self) -> None:
        """Drop the arrays."""
        gc.enable()
        self.inputs, self.outputs, self._guarded, self._sets, self._in_place = {}, {}, {}, [], {}


def _same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays of one shape and type hold the same bytes, whatever they mean (NaN equals itself)."""
    ours, theirs = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    words = ours.size // 8 * 8  # eight at a time: of inputs of 256 MiB that is a tenth of a second less, and often
    return bool(
        np.array_equal(ours[:words].view(np.uint64), theirs[:words].view(np.uint64))
        and np.array_equal(ours[words:], theirs[words:])
    )
