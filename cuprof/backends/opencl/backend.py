"""The OpenCL back end: measures on one device.

Nothing is built ahead: OpenCL drivers compile under a lock of their own, and cache the result.
"""

from __future__ import annotations

import platform
import statistics
from functools import cached_property

from cuprof.backends.contract import Backend, ReadingOptions
from cuprof.backends.device_state import find_other_processes, find_uuid
from cuprof.backends.opencl.device import OpenClDevice
from cuprof.backends.opencl.session import OpenClRunnable, OpenClSession
from cuprof.backends.opencl.spec import SPEC
from cuprof.core.records import Calibration, DeviceFacts
from cuprof.families import Arrays, Signature

FUNCTION_BITS = 3
"""NVIDIA's "slot" holds the PCI device number above the function's three bits."""


class OpenClBackend(Backend[OpenClRunnable]):
    """One OpenCL device, chosen by ordinal in `find_devices`, with a context and an in-order queue of its own."""

    spec = SPEC

    def __init__(self, index: int | None = None) -> None:
        self.device = OpenClDevice(index or 0)

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
        return self._facts

    @cached_property
    def _facts(self) -> DeviceFacts:
        device = self.device.handle
        name = " ".join(device.name.split())
        identity = {
            "name": name,
            "platform": device.platform.name.strip(),
            "version": " ".join(device.version.split()),
            "driver": device.driver_version.strip(),
            "compute_units": str(device.max_compute_units),
        }
        return DeviceFacts(
            backend=self.spec.name,
            index=self.device.index,
            name=name,
            uuid=self._uuid(),
            memory_bytes=int(device.global_mem_size),
            identity=identity,
            details={
                **identity,
                "type": self._type(),
                "local_bytes": int(device.local_mem_size),
                "max_work_group_size": int(device.max_work_group_size),
                "cache_bytes": int(device.global_mem_cache_size),
                "max_clock_mhz": int(device.max_clock_frequency),
                "pyopencl": self.device.cl.VERSION_TEXT,
                "host": platform.node(),
            },
        )

    def _type(self) -> str:
        kinds = self.device.cl.device_type
        known = {kinds.GPU: "GPU", kinds.CPU: "CPU", kinds.ACCELERATOR: "accelerator"}
        return known.get(self.device.handle.type & ~kinds.DEFAULT, "other")

    def _uuid(self) -> str:
        """Return the UUID that NVML has for an NVIDIA device: PyOpenCL offers its PCI address and no UUID."""
        if not self.device.is_nvidia:
            return ""
        device = self.device.handle
        try:
            return find_uuid(device.pci_domain_id_nv, device.pci_bus_id_nv, device.pci_slot_id_nv >> FUNCTION_BITS)
        except (self.device.cl.Error, AttributeError):
            return ""

    def calibrate(self) -> Calibration:
        """Measure read bandwidth on a buffer far larger than the caches, and the duration of an empty kernel."""
        timer, device = self.device.timer, self.device.handle
        most = min(device.max_mem_alloc_size, device.global_mem_size // 8)
        size = min(max(16 * timer.cache_bytes, 1 << 28), most) // 4096 * 4096
        with self.device.errors("calibrate", waiting=True):
            read = timer.reader(timer.filled_buffer(size))
            readings = [timer.kernel_time([read], "none").duration_ns for _ in range(7)]
            empty = [timer.kernel_time([timer.empty], "none").duration_ns for _ in range(20)]
        return Calibration(
            backend=self.spec.name,
            read_bandwidth=size / (statistics.median(readings[2:]) * 1e-9),
            details={
                "read_bytes": size,
                "other_processes": find_other_processes(self.facts().uuid),
                "empty_kernel_ns": statistics.median(empty[4:]),
            },
        )

    def open(
        self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0
    ) -> OpenClSession:
        """Copy the inputs to the device and allocate outputs and the scratch arena."""
        with self.device.errors("set up the buffers"):
            return OpenClSession(self.device, signature, inputs, options, scratch_bytes)
