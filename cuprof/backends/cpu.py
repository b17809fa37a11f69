"""The CPU back end: Python functions on NumPy arrays, timed with the monotonic clock."""

from __future__ import annotations

import math
import os
import platform
import time
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil

from cuprof.backends.base import POISON_BYTE, Reading, ReadingOptions, own_views
from cuprof.backends.guarded import GuardedArray
from cuprof.backends.host_memory import available_bytes
from cuprof.family import Arrays, Point, Program, Signature, Tolerance, Variant
from cuprof.records import BuildFacts, Calibration, DeviceFacts, Measure

TIMING_VERSION = 2
"""Raised whenever a change here changes what a number means; part of every method's hash."""
CALIBRATION_READINGS = 10
READING_LIMIT_NS = 1_000_000_000
CACHES = 8
MEMORY_SHARE = 8
"""The calibration takes at most one part in so many of the memory that is free."""
LEAST_READ_BYTES = 8 << 20
DEFAULT_CACHE_BYTES = 32 << 20
"""Assumed size of the last-level cache where the operating system does not tell."""


@dataclass
class CpuRunnable:
    """A variant ready to run."""

    call: Callable[[], object]
    build: BuildFacts = field(default_factory=BuildFacts)
    steps: int = 1
    phases: int = 1


class CpuBackend:
    """The host's processor.

    Args:
        threads: threads that parallel variants may use (Numba's); all the process may run on by default, and at most.
    """

    name = "cpu"
    measures = (Measure.COLD, Measure.HOT)

    def __init__(self, threads: int | None = None) -> None:
        usable = len(os.sched_getaffinity(0))
        self.threads = min(threads or usable, usable)
        self._flush_buffer: np.ndarray | None = None

    @property
    def flush_buffer(self) -> np.ndarray:
        """Return data of twice the last-level cache's size, made at first use."""
        if self._flush_buffer is None:
            self._flush_buffer = np.ones(2 * cache_bytes() // 8)
        return self._flush_buffer

    def facts(self) -> DeviceFacts:
        """Return the processor's model and the memory of the host."""
        model = processor_name()
        python, numpy = platform.python_version(), metadata.version("numpy")
        return DeviceFacts(
            backend=self.name,
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
                give_up = time.perf_counter_ns() + READING_LIMIT_NS
                for _ in range(CALIBRATION_READINGS):
                    started = time.perf_counter_ns()
                    list(pool.map(reader, parts))
                    ended = time.perf_counter_ns()
                    best_ns = min(best_ns, ended - started)
                    if ended > give_up:
                        break
        bandwidth = data.nbytes / (best_ns * 1e-9)
        return Calibration(self.name, read_bandwidth=bandwidth, details={"read_bytes": data.nbytes})

    def correction_ns(self, measure: Measure) -> float:
        """Return zero: nothing is taken off."""
        return 0.0

    def build_ahead(self, builds: Iterable[tuple[Variant, Program, str]]) -> None:
        """Do nothing: functions compile when they are prepared."""

    def open(self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0) -> CpuSession:
        """Copy the inputs and allocate outputs, guard bytes around each."""
        return CpuSession(self, signature, inputs, options)


class CpuSession:
    """Inputs and outputs of one problem in host memory.

    Each lies between guard bytes: a variant that writes past the end of an array would else meet whatever the allocator
    put there, and be found right in one run and end the process in the next.
    """

    def __init__(self, backend: CpuBackend, signature: Signature, inputs: Arrays, options: ReadingOptions) -> None:
        self.backend, self.options = backend, options
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

            numba.set_num_threads(min(self.backend.threads, numba.config.NUMBA_NUM_THREADS))
        started = time.monotonic_ns()
        call = variant.make(problem, tunables, own_views(self.inputs), own_views(self.outputs))
        return CpuRunnable(call, BuildFacts(build_ns=time.monotonic_ns() - started))

    def poison(self, runnable: CpuRunnable, byte: int = POISON_BYTE) -> None:
        """Overwrite the outputs."""
        for array in self.outputs.values():
            array.reshape(-1).view(np.uint8).fill(byte)

    def run(self, runnable: CpuRunnable) -> None:
        """Execute once."""
        runnable.call()

    def repeat(self, runnable: CpuRunnable, count: int) -> None:
        """Execute back to back."""
        for _ in range(count):
            runnable.call()

    def watch_inputs(self) -> None:
        """Remember what the inputs hold."""
        self._checksums = {name: checksum(array) for name, array in self.inputs.items()}

    def check_in_place(self, runnable: CpuRunnable, reference: Arrays, tolerance: Tolerance, seed: int) -> None:
        """Leave the comparison to the host."""

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
        if measure is Measure.COLD and self.options.flush != "none":
            self._flush()
        started = time.perf_counter_ns()
        for _ in range(batch):
            call()
        return Reading((time.perf_counter_ns() - started) / batch)

    def tick_ns(self, measure: Measure) -> float:
        """Return zero: the monotonic clock counts in nanoseconds or nearly."""
        return 0.0

    def close(self) -> None:
        """Drop the arrays."""
        self.inputs, self.outputs = {}, {}
        self._guarded_inputs, self._guarded_outputs = {}, {}

    def _flush(self) -> None:
        if self.options.flush == "dirty":
            self.backend.flush_buffer.fill(1.0)
        else:
            self.backend.flush_buffer.max()


def checksum(array: np.ndarray) -> int:
    """Return a checksum of a contiguous array's bytes."""
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


def processor_name() -> str:
    """Return the processor's model as the kernel names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cache_bytes() -> int:
    """Return the size of the last-level cache as Linux reports it, else `DEFAULT_CACHE_BYTES`."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text.endswith("K"):
            sizes.append(int(text[:-1]) << 10)
        elif text.endswith("M"):
            sizes.append(int(text[:-1]) << 20)
    return max(sizes, default=DEFAULT_CACHE_BYTES)
