"""The OpenCL back end: measures on one device.

Nothing is built ahead: OpenCL drivers compile under a lock of their own, and cache the result.
"""

from __future__ import annotations

import platform
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from cuprof.backends.contract import Backend, DeviceLostError, Draw, Draws, Frame, Runnable, Session
from cuprof.backends.device_state import find_other_processes, find_uuid
from cuprof.backends.opencl.memory import OpenClMemory
from cuprof.backends.opencl.presence import find_devices, import_pyopencl
from cuprof.backends.opencl.timing import OpenClTimer
from cuprof.backends.registry import OPENCL
from cuprof.builds.ptxas import most_of, read_resources
from cuprof.core.errors import (
    BuildError,
    CuprofError,
    DeviceMemoryError,
    ImpossibleError,
    LaunchError,
    MissingDependencyError,
)
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Calibration, DeviceFacts, Measure
from cuprof.core.text import compare
from cuprof.families import Copy, Fill, Launch, Program, Variant
from cuprof.families.program import Step, as_scalar

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
Enqueue = Callable[[Sequence[Any]], Any]
"""Enqueue one step after the given events and return its event."""


class OpenClSession(Session[Runnable]):
    """Inputs, outputs and scratch of one problem in device memory."""

    backend: OpenClBackend
    memories = OpenClMemory

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> Runnable:
        """Build and bind; `text` is the variant's source with its includes expanded."""
        if program is None:
            raise LaunchError(f"{variant.name}: library calls run on the back ends cuda and cpu, not on opencl")
        if program.constants:
            raise LaunchError(f"{variant.name}: `constants` are for CUDA; OpenCL passes a `constant` pointer argument")
        options = [f"-D{macro}={value}" for macro, value in program.defines.items()]
        options += ["-cl-nv-verbose", *program.options] if self.backend.is_nvidia else program.options
        started = time.monotonic_ns()
        built, log = self.backend.build(text, variant.source or variant.name, tuple(options))
        build_ns = time.monotonic_ns() - started
        with self.backend.errors(f"prepare {variant.name}"):
            buffers, results = self._lay_out(program, text)
            kernels: list[Any] = []
            steps = [self._step(built, step, buffers, kernels) for step in program.steps]
            setup = [partial(self._step(built, step, buffers, kernels), ()) for step in program.setup]
            facts = self._build_facts(kernels, log, build_ns)

        def enqueue(after: Sequence[Any] = (), keep: Any = (buffers, self.scratch)) -> list[Any]:
            # A kernel does not keep the buffers alive that it has as arguments; `keep` does.
            return [step(() if number else after) for number, step in enumerate(steps)]

        return Runnable(enqueue, build=facts, steps=len(steps), setup=tuple(setup), **results)

    def run(self, runnable: Runnable, count: int = 1) -> None:
        """Execute back to back and wait."""
        with self.backend.errors("launch"):
            events = [event for _ in range(count) for event in runnable.enqueue()]
        with self.backend.errors("execute", waiting=True):
            self.backend.cl.wait_for_events(events)
            self.backend.queue.finish()

    def begin(self, runnable: Runnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Execute and time; see `OpenClTimer` for each measure."""
        timer = self.backend.timer
        self.give(runnable, draw())
        with self.backend.errors("execute", waiting=True):
            if measure is Measure.TOTAL:
                uploads, downloads = self._transfers(runnable)
                reading = timer.total_time(uploads, runnable.enqueue, downloads)
            else:
                flush = self.options.flush if measure is Measure.COLD else "none"
                reading = timer.kernel_time(runnable.enqueue, flush, batch, self.options.blocking)
        return lambda: reading

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of the device's profiling events; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.backend.timer.tick_ns

    def _step(self, built: Any, step: Step, buffers: Mapping[str, Any], kernels: list[Any]) -> Enqueue:
        cl, queue = self.backend.cl, self.backend.queue
        if isinstance(step, Fill):
            buffer, pattern = buffers[step.buffer], np.uint8(step.value)
            return lambda after: cl.enqueue_fill_buffer(queue, buffer, pattern, 0, buffer.size, wait_for=after)
        if isinstance(step, Copy):
            source, target = buffers[step.source], buffers[step.target]
            count = min(source.size, target.size)
            return lambda after: cl.enqueue_copy(queue, target, source, byte_count=count, wait_for=after)
        assert isinstance(step, Launch)
        if step.shared_bytes:
            raise LaunchError(f"{step.kernel}: `shared_bytes` is for CUDA; OpenCL declares local arrays in the kernel")
        try:
            kernel = cl.Kernel(built, step.kernel)
        except cl.Error:
            known = ", ".join(built.kernel_names.split(";")) or "none"
            raise LaunchError(f"the program has no kernel {step.kernel}; there are {known}") from None
        if kernel.num_args != len(step.args):
            raise LaunchError(f"{step.kernel} has {kernel.num_args} parameters and is given {len(step.args)} arguments")
        kernel.set_args(*(buffers[value] if isinstance(value, str) else as_scalar(value) for value in step.args))
        self._check_group(kernel, step)
        kernels.append(kernel)
        length = max(len(step.grid), len(step.block))
        grid, block = ((*sizes, 1, 1)[:length] for sizes in (step.grid, step.block))
        items = tuple(groups * size for groups, size in zip(grid, block, strict=True))
        return lambda after: cl.enqueue_nd_range_kernel(queue, kernel, items, block, wait_for=after)

    def _check_group(self, kernel: Any, step: Launch) -> None:
        """Refuse a group that the device cannot run, naming the limit: the driver would only give a code."""
        device, info = self.backend.handle, self.backend.cl.kernel_work_group_info
        # A kernel that states its group size was compiled to fit it, whatever the device answers for a free size.
        stated = any(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
        most = device.max_work_group_size if stated else kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
        needed = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)
        sides = zip(step.block, device.max_work_item_sizes, strict=False)
        for excess in (
            compare("work-items a group", int(np.prod(step.block)), most),
            *(compare(f"work-items in dimension {number}", *side) for number, side in enumerate(sides)),
            compare("local memory a group", needed, device.local_mem_size, "bytes"),
        ):
            if excess:
                raise ImpossibleError(f"{excess} of kernel {step.kernel}")

    def _build_facts(self, kernels: Sequence[Any], log: str, build_ns: int) -> BuildFacts:
        """Return the resources: registers and spills from NVIDIA's compiler log, local memory from OpenCL."""
        logged = read_resources(log)
        used = [logged[kernel.function_name] for kernel in kernels if kernel.function_name in logged]
        info = self.backend.cl.kernel_work_group_info.LOCAL_MEM_SIZE
        local = [kernel.get_work_group_info(info, self.backend.handle) for kernel in kernels]
        return replace(most_of(used), shared_bytes=max(local, default=None), build_ns=build_ns, log=log)


class OpenClBackend(Backend[Runnable]):
    """One OpenCL device, chosen by ordinal in `find_devices`, with a context and an in-order queue of its own.

    Attributes:
        cl: the module pyopencl.
        handle: PyOpenCL's device.
    """

    spec = OPENCL
    sessions = OpenClSession

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
        self.build = lru_cache(1)(self._build)  # the judge binds one program to hundreds of sets of arrays

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
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
        device = self.handle
        if self.is_nvidia:
            with suppress(self.cl.Error, AttributeError):
                return find_uuid(device.pci_domain_id_nv, device.pci_bus_id_nv, device.pci_slot_id_nv >> FUNCTION_BITS)
        return ""

    @cached_property
    def timer(self) -> OpenClTimer:
        """Return the timing apparatus of this device, made at first use."""
        return OpenClTimer(self)

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

    def _build(self, text: str, name: str, options: tuple[str, ...]) -> tuple[Any, str]:
        """Return the built program and the compiler's log; PyOpenCL and the drivers cache builds by themselves."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.cl.CompilerWarning)  # the log is kept; it is no failure
            try:
                built = self.cl.Program(self.context, text).build([*options], [self.handle])
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
