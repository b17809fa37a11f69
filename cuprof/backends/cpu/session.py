"""The buffers of one problem in host memory, and the variants that are prepared on them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cuprof.backends.contract import POISON_BYTE, Reading, ReadingOptions, Session, own_views
from cuprof.backends.cpu.caches import Caches
from cuprof.backends.guarded import GuardedArray
from cuprof.family import Arrays, Program, Signature, Variant
from cuprof.point import Point
from cuprof.records import BuildFacts, Measure


@dataclass
class CpuRunnable:
    """A variant ready to run."""

    call: Callable[[], object]
    build: BuildFacts = field(default_factory=BuildFacts)
    steps: int = 1
    phases: int = 1


class CpuSession(Session[CpuRunnable]):
    """Inputs and outputs of one problem in host memory.

    Each lies between guard bytes: a variant that writes past the end of an array would else meet whatever the allocator
    put there, and be found right in one run and end the process in the next.
    """

    def __init__(
        self, caches: Caches, threads: int, signature: Signature, inputs: Arrays, options: ReadingOptions
    ) -> None:
        self.caches, self.threads, self.options = caches, threads, options
        self._guarded_inputs = {name: GuardedArray.copy_of(array) for name, array in inputs.items()}
        self._guarded_outputs = {name: GuardedArray(spec.shape, spec.dtype) for name, spec in signature.outputs.items()}
        self.inputs = {name: guarded.array for name, guarded in self._guarded_inputs.items()}
        self.outputs = {name: guarded.array for name, guarded in self._guarded_outputs.items()}
        self._checksums: dict[str, int] = {}

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> CpuRunnable:
        """Let the variant prepare itself (compile, plan), once and untimed."""
        if "numba" in variant.requires:
            import numba

            numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        started = time.monotonic_ns()
        call = variant.make(problem, tunables, own_views(self.inputs), own_views(self.outputs))
        return CpuRunnable(call, BuildFacts(build_ns=time.monotonic_ns() - started))

    def poison(self, runnable: CpuRunnable, byte: int = POISON_BYTE) -> None:
        """Overwrite the outputs."""
        for array in self.outputs.values():
            array.reshape(-1).view(np.uint8).fill(byte)

    def repeat(self, runnable: CpuRunnable, count: int) -> None:
        """Execute back to back."""
        for _ in range(count):
            runnable.call()

    def watch_inputs(self) -> None:
        """Remember what the inputs hold."""
        self._checksums = {name: checksum(array) for name, array in self.inputs.items()}

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs that were overwritten."""
        return tuple(name for name, known in self._checksums.items() if checksum(self.inputs[name]) != known)

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return the arrays next to which something was written ("input x", "output y")."""
        groups = {"input": self._guarded_inputs, "output": self._guarded_outputs}
        return tuple(
            f"{kind} {name}" for kind, group in groups.items() for name, array in group.items() if not array.is_sound
        )

    def restore_inputs(self, inputs: Arrays) -> None:
        """Write the inputs anew, and all guard bytes."""
        for name, array in inputs.items():
            self.inputs[name][...] = array
        for guarded in (*self._guarded_inputs.values(), *self._guarded_outputs.values()):
            guarded.mend()

    def fetch(self, runnable: CpuRunnable) -> dict[str, np.ndarray]:
        """Copy the outputs."""
        return {name: array.copy() for name, array in self.outputs.items()}

    def read(self, runnable: CpuRunnable, measure: Measure, batch: int = 1) -> Reading:
        """Time one execution after reading other data (cold), or a batch back to back (hot)."""
        call = runnable.call
        if measure is Measure.COLD:
            self.caches.flush(self.options.flush)
        started = time.perf_counter_ns()
        for _ in range(batch):
            call()
        return Reading((time.perf_counter_ns() - started) / batch)

    def close(self) -> None:
        """Drop the arrays."""
        self.inputs, self.outputs = {}, {}
        self._guarded_inputs, self._guarded_outputs = {}, {}


def checksum(array: np.ndarray) -> int:
    """Return a checksum of a contiguous array's bytes."""
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)
