"""The CPU back end: measures on the host's processor.

Raise `timing_version` in built_in.py when a change to the timing changes the meaning of a number.
"""

from __future__ import annotations

import math
import platform
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil

from cuprof.backends.built_in import CPU
from cuprof.backends.contract import Backend, ReadingOptions, Runnable
from cuprof.backends.cpu.compilations import Compilations
from cuprof.backends.cpu.processor import Caches, cache_bytes, cpu_name
from cuprof.backends.cpu.session import CpuSession
from cuprof.backends.host_memory import available_bytes
from cuprof.core.processes import count_cores
from cuprof.core.records import Calibration, DeviceFacts
from cuprof.families import Arrays, Signature

CALIBRATION_READINGS = 10
READING_LIMIT_NS = 1_000_000_000
CACHES = 8
MEMORY_SHARE = 8
"""Use at most 1/N of the free memory for the calibration."""
LEAST_READ_BYTES = 8 << 20


class CpuBackend(Backend[Runnable]):
    """The host's processor.

    Args:
        threads: threads that parallel variants may use (Numba's); all the process may run on by default, and at most.
    """

    spec = CPU

    def __init__(self, threads: int | None = None) -> None:
        usable = count_cores()
        self.threads = min(threads or usable, usable)
        self._caches, self._compilations = Caches(), Compilations()

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
        _, size = plan_calibration()
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
        return Calibration(self.spec.name, read_bandwidth=bandwidth, details={"read_bytes": data.nbytes})

    def open(self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0) -> CpuSession:
        """Copy the inputs and allocate outputs, guard bytes around each."""
        return CpuSession(self._caches, self._compilations, self.threads, signature, inputs, options, scratch_bytes)


def plan_calibration() -> tuple[int, int]:
    """Return how many bytes the calibration would read at best, and how many the free memory lets it."""
    wanted = max(CACHES * cache_bytes(), 128 << 20)
    return wanted, min(wanted, available_bytes() // MEMORY_SHARE)
