"""The CUDA back end: NVRTC, the driver API for launches and events, CuPy for arrays and libraries."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.backends.base import ReadingOptions
from cuprof.backends.build_cache import BuildCache
from cuprof.backends.cuda_driver import call, load_driver
from cuprof.backends.cuda_facts import read_facts
from cuprof.backends.cuda_kernels import DeviceKernels
from cuprof.backends.cuda_session import CudaSession, CupyErrors, on_stream
from cuprof.backends.cuda_timing import CudaTimer
from cuprof.backends.device_state import find_other_processes
from cuprof.backends.nvrtc import pick_arch
from cuprof.errors import MissingDependencyError
from cuprof.family import Arrays, Program, Signature, Variant
from cuprof.records import Calibration, DeviceFacts, Measure

READ_BLOCKS = (1, 2, 3, 4, 6, 8, 16)
"""Blocks of 512 threads a multiprocessor that the calibration tries; the best of them is the read bandwidth."""


class CudaBackend:
    """One CUDA device, chosen by ordinal. Opening it makes its primary context current in this thread."""

    name = "cuda"
    measures = (Measure.COLD, Measure.HOT, Measure.TOTAL)

    def __init__(self, index: int = 0, cache: BuildCache | None = None) -> None:
        try:
            import cupy
        except ImportError:
            raise MissingDependencyError("CuPy", "pip install 'cuprof[cuda13]' (or [cuda12])") from None
        self.cupy = cupy
        self.driver = load_driver()
        self.index = index
        self.device = cupy.cuda.Device(index)
        self.device.use()
        cupy.cuda.runtime.free(0)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.cache = cache or BuildCache()
        self.arch = pick_arch(self._attribute("COMPUTE_CAPABILITY_MAJOR"), self._attribute("COMPUTE_CAPABILITY_MINOR"))
        self.multiprocessors = self._attribute("MULTIPROCESSOR_COUNT")
        self._kernels: DeviceKernels | None = None
        self._timer: CudaTimer | None = None
        self._facts: DeviceFacts | None = None

    @property
    def kernels(self) -> DeviceKernels:
        """Return the framework's own kernels, compiled at first use."""
        if self._kernels is None:
            source = (Path(__file__).parent / "device_kernels.cu").read_text()
            cubin, _ = self.cache.compile(source, name="device_kernels.cu", arch=self.arch, defines={})
            self._kernels = DeviceKernels(self.cupy, self.stream, self.load(cubin.image))
        return self._kernels

    @property
    def timer(self) -> CudaTimer:
        """Return the timing apparatus of this device, made (and its own cost measured) at first use."""
        if self._timer is None:
            self._timer = CudaTimer(self.cupy, self.stream, self.kernels, self._attribute("L2_CACHE_SIZE"))
        return self._timer

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
        if self._facts is None:
            self._facts = read_facts(self.index)
        return self._facts

    def calibrate(self) -> Calibration:
        """Measure read bandwidth on a buffer of at least 16 times the L2 cache, and what timing itself costs."""
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        size = min(max(16 * self._attribute("L2_CACHE_SIZE"), 1 << 30), free // 4) // 4096 * 4096
        buffer = self.cupy.empty(size, dtype=self.cupy.uint8)
        buffer.fill(1)
        best = 0.0
        others = find_other_processes(self.facts().uuid)
        for blocks_per_multiprocessor in READ_BLOCKS:
            launch = self.timer.reader(buffer, self.multiprocessors * blocks_per_multiprocessor)
            enqueue = on_stream(launch, self.stream.ptr)
            readings = [self.timer.cold(enqueue).duration_ns for _ in range(13)]
            best = max(best, size / (statistics.median(readings[3:]) * 1e-9))
        return Calibration(
            backend=self.name,
            read_bandwidth=best,
            event_overhead_ns=self.timer.correction_ns,
            details={"read_bytes": size, "other_processes": others, **self.timer.own_costs},
        )

    def correction_ns(self, measure: Measure) -> float:
        """Return the cost of an event pair around kernels, as this process measured it; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.timer.correction_ns

    def open(
        self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0
    ) -> CudaSession:
        """Copy the inputs to the device and allocate outputs and the scratch arena."""
        with CupyErrors(self.cupy, "put the inputs on the device"):
            return CudaSession(self, signature, inputs, options, scratch_bytes)

    def build_ahead(self, builds: Iterable[tuple[Variant, Program, str]]) -> None:
        """Begin to compile these (variant, program, source text) in threads, in the order given."""
        for variant, program, text in builds:
            self.cache.start(
                text,
                name=variant.source or variant.name,
                arch=self.arch,
                defines=program.defines,
                options=program.options,
            )

    def upload(self, array: np.ndarray, target: Any = None) -> Any:
        """Copy a host array to the device and wait.

        `cupy.asarray` stages large arrays in page-locked memory and keeps that for later. Kernels can reach
        page-locked memory, so Nsight Compute saves it anew for every launch that it replays: 128 MiB of it doubled the
        time of profiling a launch.

        Args:
            target: a device array of the same shape and type to copy into; a new one when None.

        Returns:
            The device array.

        Raises:
            LaunchError: the copy failed.
        """
        host = np.asarray(array, order="C")
        device = self.cupy.empty(host.shape, host.dtype) if target is None else target
        if host.nbytes:
            copy = self.driver.cuMemcpyHtoDAsync(device.data.ptr, host.ctypes.data, host.nbytes, self.stream.ptr)
            call(copy, "copy to the device")
        call(self.driver.cuStreamSynchronize(self.stream.ptr), "copy to the device")
        return device

    def load(self, image: bytes) -> Any:
        """Return a loaded module; it stays loaded as long as the process."""
        return call(self.driver.cuModuleLoadData(image), "load the compiled module")

    def _attribute(self, name: str) -> int:
        attribute = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call(self.driver.cuDeviceGetAttribute(attribute, self.index), f"read device attribute {name}"))
