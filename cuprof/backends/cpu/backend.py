"""The CPU back end: the host's processor and what is measured on it.

A change of its timing that changes what a number means raises `timing_version` in spec.py.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable
from importlib import metadata

import numpy as np
import psutil

from cuprof.backends.contract import Backend, ReadingOptions
from cuprof.backends.cpu.caches import Caches
from cuprof.backends.cpu.processor import cache_bytes, cpu_count, cpu_name
from cuprof.backends.cpu.session import CpuRunnable, CpuSession
from cuprof.backends.cpu.spec import SPEC
from cuprof.family import Arrays, Signature
from cuprof.records import Calibration, DeviceFacts

CALIBRATION_READINGS = 10


class CpuBackend(Backend[CpuRunnable]):
    """The host's processor.

    Args:
        threads: threads that parallel variants may use (Numba's); all the process may run on by default, and at most.
    """

    spec = SPEC

    def __init__(self, threads: int | None = None) -> None:
        usable = cpu_count()
        self.threads = min(threads or usable, usable)
        self._caches = Caches()

    def facts(self) -> DeviceFacts:
        """Return the processor's model and the memory of the host."""
        model = cpu_name()
        python, numpy = platform.python_version(), metadata.version("numpy")
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
        """Measure read bandwidth: the best sum, parallel or plain, of a buffer of eight times the last-level cache."""
        import numba

        numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        data = np.ones(min(max(8 * cache_bytes(), 256 << 20), psutil.virtual_memory().available // 8) // 8)
        total = _parallel_sum()
        total(data)
        best_ns = math.inf  # the best of all, since a roof is what the machine can do when nothing disturbs it
        for reader in (total, np.sum):
            for _ in range(CALIBRATION_READINGS):
                started = time.perf_counter_ns()
                reader(data)
                best_ns = min(best_ns, time.perf_counter_ns() - started)
        bandwidth = data.nbytes / (best_ns * 1e-9)
        return Calibration(self.spec.name, read_bandwidth=bandwidth, details={"read_bytes": data.nbytes})

    def open(self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0) -> CpuSession:
        """Copy the inputs and allocate outputs, guard bytes around each."""
        return CpuSession(self._caches, self.threads, signature, inputs, options)


def open_backend(threads: int | None = None) -> CpuBackend:
    """Take the processor with so many threads, all that there are by default."""
    return CpuBackend(threads)


def _parallel_sum() -> Callable[[np.ndarray], float]:
    import numba

    @numba.njit(parallel=True, fastmath=True, cache=False)
    def total(data):  # type: ignore[no-untyped-def]
        result = 0.0
        for i in numba.prange(data.size):
            result += data[i]
        return result

    return total  # type: ignore[no-any-return]
