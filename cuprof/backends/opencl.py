"""The OpenCL back end: PyOpenCL on any device, kernel times from profiling events."""

from __future__ import annotations

import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuprof.backends.base import POISON_BYTE, DeviceLostError, Reading, ReadingOptions
from cuprof.backends.device_state import find_other_processes, find_uuid
from cuprof.backends.nvrtc import KernelFacts, read_resources
from cuprof.backends.opencl_guards import GuardedBuffer
from cuprof.backends.opencl_timing import OpenClTimer
from cuprof.errors import BuildError, CuprofError, LaunchError, MissingDependencyError
from cuprof.family import Arrays, Fill, Launch, Point, Program, Signature, Tolerance, Variant
from cuprof.family.program import as_scalar
from cuprof.records import BuildFacts, Calibration, DeviceFacts, Measure

NO_DEVICE_REMEDY = (
    "for the CPU: apt install pocl-opencl-icd; for an NVIDIA GPU: "
    "echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd"
)
FUNCTION_BITS = 3
"""NVIDIA's "slot" holds the PCI device number above the function's three bits."""
LOST_CODES = frozenset({-5, -36, -9999})
"""CL_OUT_OF_RESOURCES, CL_INVALID_COMMAND_QUEUE, NVIDIA's own: what waiting for a kernel that crashed reports."""

Step = Callable[[Sequence[Any]], Any]
"""Enqueue one step after the given events and return its event."""


@dataclass
class OpenClRunnable:
    """A variant ready to run: each of `actions` enqueues one launch or fill."""

    actions: tuple[Step, ...]
    results: Mapping[str, Any]
    arena: GuardedBuffer
    build: BuildFacts = field(default_factory=BuildFacts)
    keep: tuple[Any, ...] = ()
    """Every buffer that the actions use: a kernel does not hold the memory that it has as an argument."""

    phases: int = 1

    @property
    def steps(self) -> int:
        """Return how many operations an execution enqueues."""
        return len(self.actions)


def import_pyopencl() -> Any:
    """Return the module `pyopencl`, or raise `MissingDependencyError`."""
    try:
        import pyopencl
    except ImportError:
        raise MissingDependencyError("PyOpenCL", "pip install 'cuprof[opencl]'") from None
    return pyopencl


def list_devices() -> list[Any]:
    """Return every OpenCL device: GPUs first, then others, CPUs last, each kind in the platforms' order.

    Raises:
        MissingDependencyError: PyOpenCL is not installed.
    """
    cl = import_pyopencl()
    try:
        devices = [device for each in cl.get_platforms() for device in _list_platform_devices(cl, each)]
    except cl.Error:  # without any platform the loader reports an error instead of an empty list
        return []
    rank = {cl.device_type.GPU: 0, cl.device_type.CPU: 2}
    return sorted(devices, key=lambda device: rank.get(device.type & ~cl.device_type.DEFAULT, 1))


class OpenClBackend:
    """One OpenCL device, chosen by ordinal in `list_devices`, with a context and an in-order queue of its own."""

    name = "opencl"
    measures = (Measure.COLD, Measure.HOT, Measure.TOTAL)

    def __init__(self, index: int = 0) -> None:
        self.cl = import_pyopencl()
        devices = list_devices()
        if not devices:
            raise MissingDependencyError("an OpenCL device", NO_DEVICE_REMEDY)
        if index >= len(devices):
            raise CuprofError(f"device.opencl={index}: there are {len(devices)} OpenCL devices, numbered from 0")
        self.index = index
        self.device = devices[index]
        self.context = self.cl.Context([self.device])
        profiling = self.cl.command_queue_properties.PROFILING_ENABLE
        self.queue = self.cl.CommandQueue(self.context, self.device, properties=profiling)
        self.is_nvidia = "NVIDIA" in self.device.platform.name
        self._timer: OpenClTimer | None = None
        self._facts: DeviceFacts | None = None

    @property
    def timer(self) -> OpenClTimer:
        """Return the timing apparatus of this device, made at first use."""
        if self._timer is None:
            self._timer = OpenClTimer(self.cl, self.context, self.queue)
        return self._timer

    def facts(self) -> DeviceFacts:
        """Return the device's name, memory and the versions that its timings depend on."""
        if self._facts is None:
            self._facts = self._read_facts()
        return self._facts

    def _read_facts(self) -> DeviceFacts:
        device = self.device
        name = " ".join(device.name.split())
        identity = {
            "name": name,
            "platform": device.platform.name.strip(),
            "version": " ".join(device.version.split()),
            "driver": device.driver_version.strip(),
            "compute_units": str(device.max_compute_units),
        }
        return DeviceFacts(
            backend=self.name,
            index=self.index,
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
                "pyopencl": self.cl.VERSION_TEXT,
                "host": platform.node(),
            },
        )

    def _type(self) -> str:
        kinds = self.cl.device_type
        known = {kinds.GPU: "GPU", kinds.CPU: "CPU", kinds.ACCELERATOR: "accelerator"}
        return known.get(self.device.type & ~kinds.DEFAULT, "other")

    def _uuid(self) -> str:
        """Return the UUID that NVML has for an NVIDIA device: PyOpenCL offers its PCI address and no UUID."""
        if not self.is_nvidia:
            return ""
        device = self.device
        try:
            return find_uuid(device.pci_domain_id_nv, device.pci_bus_id_nv, device.pci_slot_id_nv >> FUNCTION_BITS)
        except (self.cl.Error, AttributeError):
            return ""

    def calibrate(self) -> Calibration:
        """Measure read bandwidth on a buffer far larger than the caches, and the duration of an empty kernel."""
        timer, device = self.timer, self.device
        most = min(device.max_mem_alloc_size, device.global_mem_size // 8)
        size = min(max(16 * timer.cache_bytes, 1 << 28), most) // 4096 * 4096
        with self.errors("calibrate", waiting=True):
            read = timer.reader(timer.filled_buffer(size))
            readings = [timer.kernel_time([read], "none").duration_ns for _ in range(7)]
            empty = [timer.kernel_time([timer.empty], "none").duration_ns for _ in range(20)]
        return Calibration(
            backend=self.name,
            read_bandwidth=size / (statistics.median(readings[2:]) * 1e-9),
            details={
                "read_bytes": size,
                "other_processes": find_other_processes(self.facts().uuid),
                "empty_kernel_ns": statistics.median(empty[4:]),
            },
        )

    def correction_ns(self, measure: Measure) -> float:
        """Return zero: nothing is taken off."""
        return 0.0

    def build_ahead(self, builds: Iterable[tuple[Variant, Program, str]]) -> None:
        """Do nothing: OpenCL's drivers compile under a lock of their own, and keep what they compiled."""

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
                built = self.cl.Program(self.context, text).build(options, [self.device])
            except self.cl.RuntimeError as error:
                log = str(error)
                first = next((line.strip() for line in log.splitlines() if "error:" in line), log.partition("\n")[0])
                raise BuildError(f"the OpenCL compiler refused {name}: {first}", log) from error
        return built, str(built.get_build_info(self.device, self.cl.program_build_info.LOG) or "").strip()

    @contextmanager
    def errors(self, what: str, waiting: bool = False) -> Any:
        """Turn OpenCL's errors into `LaunchError`, or `DeviceLostError` where a failed kernel is found by waiting."""
        try:
            yield
        except self.cl.Error as error:
            lost = waiting and error.code in LOST_CODES
            kind = DeviceLostError if lost else LaunchError
            raise kind(f"{what}: {str(error).splitlines()[0]}") from error


class OpenClSession:
    """Inputs, outputs and scratch of one problem in device memory."""

    def __init__(
        self, backend: OpenClBackend, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int
    ) -> None:
        self.backend, self.options, self.signature = backend, options, signature
        self._host_inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        self._guarded: list[tuple[str, GuardedBuffer]] = []
        self.inputs = {
            name: self._allocate(f"input {name}", array.nbytes).part(0, max(array.nbytes, 1))
            for name, array in self._host_inputs.items()
        }
        self.outputs = {
            name: self._allocate(f"output {name}", spec.nbytes).part(0, max(spec.nbytes, 1))
            for name, spec in signature.outputs.items()
        }
        self.arena = self._allocate("scratch", scratch_bytes)
        self._pinned: tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[Any]] | None = None
        self._upload(inputs)

    def watch_inputs(self) -> None:
        """Do nothing: the host's copy remembers what the inputs hold."""

    def check_in_place(self, runnable: OpenClRunnable, reference: Arrays, tolerance: Tolerance, seed: int) -> None:
        """Leave the comparison to the host."""

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs that were overwritten, by comparing with the host's copy."""
        return tuple(name for name, array in self._host_inputs.items() if not self._is_intact(name, array))

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return the buffers next to which something was written ("input x", "output y", "scratch")."""
        return tuple(label for label, buffer in self._guarded if not buffer.is_sound)

    def restore_inputs(self, inputs: Arrays) -> None:
        """Copy the inputs to the device anew, and write all guard bytes."""
        self._upload(inputs)
        for _, buffer in self._guarded:
            buffer.mend()

    def _upload(self, inputs: Arrays) -> None:
        for name, array in inputs.items():
            if array.nbytes:
                self.backend.cl.enqueue_copy(self.backend.queue, self.inputs[name], np.ascontiguousarray(array))
        self.backend.queue.finish()

    def _allocate(self, label: str, size: int) -> GuardedBuffer:
        buffer = GuardedBuffer(self.backend.cl, self.backend.queue, max(size, 1))
        self._guarded.append((label, buffer))
        return buffer

    def _is_intact(self, name: str, array: np.ndarray) -> bool:
        found = np.empty_like(array)
        self.backend.cl.enqueue_copy(self.backend.queue, found, self.inputs[name])
        return found.tobytes() == array.tobytes()

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> OpenClRunnable:
        """Build and bind; `text` is the variant's source with its includes expanded."""
        if program is None:
            raise LaunchError(f"{variant.name}: library calls run on the back ends cuda and cpu, not on opencl")
        if program.constants:
            raise LaunchError(f"{variant.name}: `constants` are for CUDA; OpenCL passes a `constant` pointer argument")
        started = time.monotonic_ns()
        built, log = self.backend.build(text, variant.source or variant.name, program)
        build_ns = time.monotonic_ns() - started
        with self.backend.errors(f"prepare {variant.name}"):
            buffers, sizes = self._buffers(program)
            kernels: list[Any] = []
            steps = tuple(self._step(built, step, buffers, sizes, kernels) for step in program.steps)
            results = {name: buffers[program.results.get(name, name)] for name in self.signature.outputs}
            facts = self._build_facts(kernels, log, build_ns)
        return OpenClRunnable(steps, results, self.arena, facts, tuple(buffers.values()))

    def poison(self, runnable: OpenClRunnable, byte: int = POISON_BYTE) -> None:
        """Overwrite outputs and scratch."""
        with self.backend.errors("poison the buffers", waiting=True):
            for buffer in self.outputs.values():
                self.backend.cl.enqueue_fill_buffer(self.backend.queue, buffer, np.uint8(byte), 0, buffer.size)
            runnable.arena.fill(byte)
            self.backend.queue.finish()

    def run(self, runnable: OpenClRunnable) -> None:
        """Execute once and wait."""
        self.repeat(runnable, 1)

    def repeat(self, runnable: OpenClRunnable, count: int) -> None:
        """Execute back to back and wait."""
        with self.backend.errors("launch"):
            events = [step([]) for _ in range(count) for step in runnable.actions]
        with self.backend.errors("execute", waiting=True):
            self.backend.cl.wait_for_events(events)
            self.backend.queue.finish()

    def fetch(self, runnable: OpenClRunnable) -> dict[str, np.ndarray]:
        """Copy the outputs to new host arrays."""
        found = {}
        for name, spec in self.signature.outputs.items():
            host = np.empty(spec.shape, spec.dtype)
            with self.backend.errors(f"fetch output {name}", waiting=True):
                self.backend.cl.enqueue_copy(self.backend.queue, host, runnable.results[name])
            found[name] = host
        return found

    def read(self, runnable: OpenClRunnable, measure: Measure, batch: int = 1) -> Reading:
        """Execute and time; see `OpenClTimer` for what each measure is."""
        timer = self.backend.timer
        with self.backend.errors("execute", waiting=True):
            if measure is Measure.TOTAL:
                inputs, outputs = self._host_buffers()
                uploads = [(self.inputs[name], array) for name, array in inputs.items()]
                downloads = [(array, runnable.results[name]) for name, array in outputs.items()]
                return timer.total_time(uploads, runnable.actions, downloads)
            flush = self.options.flush if measure is Measure.COLD else "none"
            return timer.kernel_time(runnable.actions, flush, batch, self.options.blocking)

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of the device's profiling events; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.backend.timer.tick_ns

    def close(self) -> None:
        """Free the buffers."""
        if self._pinned is not None:
            for mapping in self._pinned[2]:
                mapping.base.release(self.backend.queue)
        self.backend.queue.finish()
        for buffer in (*self.inputs.values(), *self.outputs.values(), *(each.memory for _, each in self._guarded)):
            buffer.release()
        self.inputs, self.outputs, self._guarded, self._pinned = {}, {}, [], None

    def _buffers(self, program: Program) -> tuple[dict[str, Any], dict[str, int]]:
        """Return every buffer by name and its size; scratch buffers are parts of the arena."""
        alignment = max(self.backend.device.mem_base_addr_align // 8, 1)
        origins, end = {}, 0
        for name, spec in program.scratch.items():
            origins[name] = end
            end += -(-max(spec.nbytes, 1) // alignment) * alignment
        if end > self.arena.size:  # earlier runnables keep the arena that they are bound to
            self.arena = self._allocate("scratch", end)
        scratch = {
            name: self.arena.part(origin, max(program.scratch[name].nbytes, 1)) for name, origin in origins.items()
        }
        buffers = {**self.inputs, **self.outputs, **scratch}
        return buffers, {name: buffer.size for name, buffer in buffers.items()}

    def _step(
        self, built: Any, step: Launch | Fill, buffers: Mapping[str, Any], sizes: Mapping[str, int], kernels: list[Any]
    ) -> Step:
        cl, queue = self.backend.cl, self.backend.queue
        if isinstance(step, Fill):
            buffer, size, pattern = buffers[step.buffer], sizes[step.buffer], np.uint8(step.value)
            return lambda after: cl.enqueue_fill_buffer(queue, buffer, pattern, 0, size, wait_for=after)
        if step.shared_bytes:
            raise LaunchError(f"{step.kernel}: `shared_bytes` is for CUDA; OpenCL declares local arrays in the kernel")
        try:
            kernel = cl.Kernel(built, step.kernel)
        except cl.Error:
            known = ", ".join(built.kernel_names.split(";"))
            raise LaunchError(f"the program has no kernel {step.kernel}; there are {known}") from None
        if kernel.num_args != len(step.args):
            raise LaunchError(f"{step.kernel} has {kernel.num_args} parameters and is given {len(step.args)} arguments")
        kernel.set_args(*(buffers[value] if isinstance(value, str) else as_scalar(value) for value in step.args))
        self._check_group(kernel, step)
        kernels.append(kernel)
        items = tuple(groups * size for groups, size in zip(*_same_length(step.grid, step.block), strict=True))
        block = _same_length(step.grid, step.block)[1]
        return lambda after: cl.enqueue_nd_range_kernel(queue, kernel, items, block, wait_for=after)

    def _check_group(self, kernel: Any, step: Launch) -> None:
        """Refuse a group that the device cannot run, naming the limit: the driver would only give a code."""
        device, info = self.backend.device, self.backend.cl.kernel_work_group_info
        items = int(np.prod(step.block))
        # A kernel that states its group size was compiled to fit it, whatever the device answers for a free size.
        stated = any(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
        most = device.max_work_group_size if stated else kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
        if items > most:
            raise LaunchError(f"{step.kernel}: {items} work-items a group, and the device runs at most {most} of it")
        for dimension, (size, limit) in enumerate(zip(step.block, device.max_work_item_sizes, strict=False)):
            if size > limit:
                raise LaunchError(f"{step.kernel}: {size} work-items in dimension {dimension}, at most {limit}")
        needed = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)
        if needed > device.local_mem_size:
            raise LaunchError(f"{step.kernel}: {needed} bytes of local memory, the device has {device.local_mem_size}")

    def _build_facts(self, kernels: Sequence[Any], log: str, build_ns: int) -> BuildFacts:
        """Return the resources: registers and spills as NVIDIA's compiler logs them, local memory as OpenCL tells."""
        logged: Mapping[str, KernelFacts] = read_resources(log)
        used = [logged[kernel.function_name] for kernel in kernels if kernel.function_name in logged]
        info = self.backend.cl.kernel_work_group_info.LOCAL_MEM_SIZE
        local = [kernel.get_work_group_info(info, self.backend.device) for kernel in kernels]
        return BuildFacts(
            registers=max((each.registers for each in used), default=None),
            shared_bytes=max(local, default=None),
            spill_bytes=max((each.spill_bytes for each in used), default=None),
            build_ns=build_ns,
            log=log,
        )

    def _host_buffers(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return host arrays to transfer from and to, page-locked if the options say so."""
        if self._pinned is None:
            mappings: list[Any] = []
            inputs = {
                name: self._host_array(array.shape, array.dtype, mappings) for name, array in self._host_inputs.items()
            }
            for name, array in self._host_inputs.items():
                inputs[name][...] = array
            outputs = {
                name: self._host_array(spec.shape, np.dtype(spec.dtype), mappings)
                for name, spec in self.signature.outputs.items()
            }
            self._pinned = (inputs, outputs, mappings)
        return self._pinned[:2]

    def _host_array(self, shape: tuple[int, ...], dtype: np.dtype, mappings: list[Any]) -> np.ndarray:
        if not self.options.pinned:
            return np.empty(shape, dtype)
        cl = self.backend.cl
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = cl.Buffer(self.backend.context, flags, max(size, 1))
        both = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self.backend.queue, buffer, both, 0, shape, dtype)
        mappings.append(array)
        return array  # type: ignore[no-any-return]


def _same_length(grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return both with as many dimensions as the longer one has."""
    length = max(len(grid), len(block))
    return (*grid, 1, 1)[:length], (*block, 1, 1)[:length]


def _list_platform_devices(cl: Any, each: Any) -> list[Any]:
    try:
        return list(each.get_devices())
    except cl.Error:  # a driver without a device reports an error instead of an empty list
        return []
