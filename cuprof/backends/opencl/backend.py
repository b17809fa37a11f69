"""The OpenCL back end: measures on one device.

Nothing is built ahead: OpenCL drivers compile under a lock of their own, and cache the result.
"""

from __future__ import annotations

import platform
import re
import statistics
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from cuprof.backends.built_in import OPENCL
from cuprof.backends.contract import Backend, DeviceLostError, ReadingOptions, Runnable
from cuprof.backends.device_state import find_other_processes, find_uuid
from cuprof.backends.opencl.presence import find_devices, import_pyopencl
from cuprof.backends.opencl.session import OpenClSession
from cuprof.backends.opencl.timing import OpenClTimer
from cuprof.core.errors import BuildError, CuprofError, DeviceMemoryError, LaunchError, MissingDependencyError
from cuprof.core.records import Calibration, DeviceFacts
from cuprof.families import Arrays, Program, Signature

FUNCTION_BITS = 3
"""NVIDIA's "slot" holds the PCI device number above the function's three bits."""
NO_DEVICE_REMEDY = (
    "for the CPU: apt install pocl-opencl-icd; for an NVIDIA GPU: "
    "echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd"
)
LOST_CODES = frozenset({-5, -36, -9999})
"""CL_OUT_OF_RESOURCES, CL_INVALID_COMMAND_QUEUE, and NVIDIA's own code: the errors that follow a crashed kernel."""
NO_MEMORY = -4
"""CL_MEM_OBJECT_ALLOCATION_FAILURE."""


class OpenClBackend(Backend[Runnable]):
    """One OpenCL device, chosen by ordinal in `find_devices`, with a context and an in-order queue of its own.

    Attributes:
        cl: the module pyopencl.
        handle: PyOpenCL's device.
    """

    spec = OPENCL

    def __init__(self, index: int | None = None) -> None:
        self.cl, self.index = import_pyopencl(), index or 0
        devices = find_devices()
        if not devices:
            raise MissingDependencyError("an OpenCL device", NO_DEVICE_REMEDY)
        if self.index >= len(devices):
            raise CuprofError(f"device.opencl={index}: there are {len(devices)} OpenCL devices, numbered from 0")
        self.handle = devices[self.index]
        self.context = self.cl.Context([self.handle])
        profiling = self.cl.command_queue_properties.PROFILING_ENABLE
        self.queue = self.cl.CommandQueue(self.context, self.handle, properties=profiling)
        self.is_nvidia = "NVIDIA" in self.handle.platform.name

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
        return self._facts

    @cached_property
    def _facts(self) -> DeviceFacts:
        device, kinds = self.handle, self.cl.device_type
        known = {kinds.GPU: "GPU", kinds.CPU: "CPU", kinds.ACCELERATOR: "accelerator"}
        identity = {
            "name": " ".join(device.name.split()),
            "platform": device.platform.name.strip(),
            "version": " ".join(device.version.split()),
            "driver": device.driver_version.strip(),
            "compute_units": str(device.max_compute_units),
        }
        details = {
            "type": known.get(device.type & ~kinds.DEFAULT, "other"),
            "local_bytes": int(device.local_mem_size),
            "max_work_group_size": int(device.max_work_group_size),
            "cache_bytes": int(device.global_mem_cache_size),
            "max_clock_mhz": int(device.max_clock_frequency),
            "pyopencl": self.cl.VERSION_TEXT,
            "host": platform.node(),
        }
        size = int(device.global_mem_size)
        return DeviceFacts(
            OPENCL.name, self.index, identity["name"], self._uuid(), size, identity, {**identity, **details}
        )

    def _uuid(self) -> str:
        """Return the UUID that NVML has for an NVIDIA device: PyOpenCL offers its PCI address and no UUID."""
        if not self.is_nvidia:
            return ""
        device = self.handle
        try:
            return find_uuid(device.pci_domain_id_nv, device.pci_bus_id_nv, device.pci_slot_id_nv >> FUNCTION_BITS)
        except (self.cl.Error, AttributeError):
            return ""

    @cached_property
    def timer(self) -> OpenClTimer:
        """Return the timing apparatus of this device, made at first use."""
        return OpenClTimer(self.cl, self.context, self.queue)

    def calibrate(self) -> Calibration:
        """Measure read bandwidth on a buffer far larger than the caches, and the duration of an empty kernel."""
        timer = self.timer
        most = min(self.handle.max_mem_alloc_size, self.handle.global_mem_size // 8)
        size = min(max(16 * timer.cache_bytes, 1 << 28), most) // 4096 * 4096
        with self.errors("calibrate", waiting=True):
            read = timer.reader(timer.filled_buffer(size))
            readings = [timer.kernel_time(read, "none").duration_ns for _ in range(7)]
            empty = [timer.kernel_time(timer.empty, "none").duration_ns for _ in range(20)]
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
        with self.errors("set up the buffers"):
            return OpenClSession(self, signature, inputs, options, scratch_bytes)

    def build(self, text: str, name: str, program: Program) -> tuple[Any, str]:
        """Return the built program and the compiler's log; PyOpenCL and the drivers cache builds by themselves."""
        options = [f"-D{macro}={value}" for macro, value in program.defines.items()]
        options += ["-cl-nv-verbose", *program.options] if self.is_nvidia else program.options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.cl.CompilerWarning)  # the log is kept; it is no failure
            try:
                built = self.cl.Program(self.context, text).build(options, [self.handle])
            except self.cl.RuntimeError as error:
                log = str(error)
                first = next((line.strip() for line in log.splitlines() if "error:" in line), log.partition("\n")[0])
                first = re.sub(r"\S*/tempfile_\w+\.cl", name, first)  # PoCL's copy of the text, another at each build
                raise BuildError(f"the OpenCL compiler refused {name}: {first}", log) from error
        return built, str(built.get_build_info(self.handle, self.cl.program_build_info.LOG) or "").strip()

    @contextmanager
    def errors(self, what: str, waiting: bool = False) -> Iterator[None]:
        """Turn OpenCL's errors into `LaunchError`, or `DeviceLostError` where a failed kernel is found by waiting."""
        try:
            yield
        except self.cl.Error as error:
            first = str(error).splitlines()[0]
            if error.code == NO_MEMORY:
                raise DeviceMemoryError(what, first) from error
            lost = waiting and error.code in LOST_CODES
            raise (DeviceLostError if lost else LaunchError)(f"{what}: {first}") from error
