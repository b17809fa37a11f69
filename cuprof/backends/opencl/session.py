"""The buffers of one problem on an OpenCL device, and the variants that are built and bound to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuprof.backends.buffers import HostArrays
from cuprof.backends.contract import Draws, Frame, ReadingOptions, Session, first_draw
from cuprof.backends.declared import find_mismatch
from cuprof.backends.opencl.device import OpenClDevice
from cuprof.backends.opencl.memory import OpenClMemory
from cuprof.builds.ptxas import most_of, read_resources
from cuprof.core.errors import ImpossibleError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Measure
from cuprof.core.text import compare
from cuprof.families import Array, Arrays, Copy, Fill, Launch, Program, Reduced, Signature, Variant
from cuprof.families.program import Step, as_scalar

Enqueue = Callable[[Sequence[Any]], Any]
"""Enqueue one step after the given events and return its event."""


@dataclass
class OpenClRunnable:
    """A variant ready to run: each of `actions` enqueues one launch or fill."""

    actions: tuple[Enqueue, ...]
    results: Mapping[str, Any]
    build: BuildFacts = field(default_factory=BuildFacts)
    keep: tuple[Any, ...] = ()
    """Every buffer that the actions use: a kernel does not keep its argument buffers alive."""

    setup: tuple[Enqueue, ...] = ()
    parts: Mapping[str, tuple[Reduced, Array]] = field(default_factory=dict)
    """Outputs left as partial results, and the arrays that hold them."""
    launch_phases: int = 1

    @property
    def steps(self) -> int:
        """Return how many operations an execution enqueues."""
        return len(self.actions)


class OpenClSession(Session[OpenClRunnable]):
    """Inputs, outputs and scratch of one problem in device memory."""

    def __init__(
        self, device: OpenClDevice, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int
    ) -> None:
        self.device = device
        self.memory: OpenClMemory
        super().__init__(OpenClMemory(device), signature, inputs, options, scratch_bytes)
        self._host = HostArrays(self._map if options.pinned else np.empty)

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> OpenClRunnable:
        """Build and bind; `text` is the variant's source with its includes expanded."""
        if program is None:
            raise LaunchError(f"{variant.name}: library calls run on the back ends cuda and cpu, not on opencl")
        if program.constants:
            raise LaunchError(f"{variant.name}: `constants` are for CUDA; OpenCL passes a `constant` pointer argument")
        started = time.monotonic_ns()
        built, log = self.device.build(text, variant.source or variant.name, program)
        build_ns = time.monotonic_ns() - started
        arrays = {**self.signature.inputs, **self.signature.outputs, **program.scratch}
        if fault := find_mismatch(program, text, {name: array.type for name, array in arrays.items()}):
            raise LaunchError(fault)
        with self.device.errors(f"prepare {variant.name}"):
            buffers = {**self.inputs, **self.outputs, **self._lay_out(program)}
            kernels: list[Any] = []
            steps = tuple(self._step(built, step, buffers, kernels) for step in program.steps)
            setup = tuple(self._step(built, step, buffers, kernels) for step in program.setup)
            results = {name: buffers[program.find_result(name)] for name in self.signature.outputs}
            facts = self._build_facts(kernels, log, build_ns)
        reduced = {name: each for name, each in program.results.items() if isinstance(each, Reduced)}
        parts = {name: (each, program.scratch[each.buffer]) for name, each in reduced.items()}
        return OpenClRunnable(steps, results, facts, (*buffers.values(), self.scratch), setup, parts)

    def set_up(self, runnable: OpenClRunnable) -> None:
        """Enqueue the set-up of a runnable."""
        for step in runnable.setup:
            step([])

    def spoil(self, runnable: OpenClRunnable, share: float, byte: int) -> None:
        """Overwrite one element of each result."""
        with self.device.errors("spoil the results", waiting=True):
            for name, buffer in runnable.results.items():
                spec = self.signature.outputs[name]
                size = spec.type.itemsize
                place = int(share * (spec.nbytes // size)) * size
                if spec.nbytes:
                    self.device.cl.enqueue_fill_buffer(self.device.queue, buffer, np.uint8(byte), place, size)
            self.device.queue.finish()

    def repeat(self, runnable: OpenClRunnable, count: int) -> None:
        """Execute back to back and wait."""
        with self.device.errors("launch"):
            events = [step([]) for _ in range(count) for step in runnable.actions]
        with self.device.errors("execute", waiting=True):
            self.device.cl.wait_for_events(events)
            self.device.queue.finish()

    def fetch(self, runnable: OpenClRunnable) -> dict[str, np.ndarray]:
        """Copy the outputs to new host arrays."""
        found = {}
        for name, spec in self.signature.outputs.items():
            own, held = runnable.parts.get(name, (None, spec))
            host = self.memory.read(runnable.results[name], held)
            found[name] = own.put_together(host, spec.shape) if own else host
        return found

    def begin(self, runnable: OpenClRunnable, measure: Measure, batch: int = 1, draw: Draws = first_draw) -> Frame:
        """Execute and time; see `OpenClTimer` for each measure."""
        timer, drawn = self.device.timer, draw()
        self.give(runnable, drawn)
        with self.device.errors("execute", waiting=True):
            if measure is Measure.TOTAL:
                inputs, outputs = self._in_place.items(), self.signature.outputs.items()
                uploads = [(self.restored[name], self._host.get_input(each.host)) for name, each in inputs]
                downloads = [(self._host.get_output(name, spec), runnable.results[name]) for name, spec in outputs]
                return Frame.ended(timer.total_time(uploads, runnable.actions, downloads))
            flush = self.options.flush if measure is Measure.COLD else "none"
            return Frame.ended(timer.kernel_time(runnable.actions, flush, batch, self.options.blocking))

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of the device's profiling events; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.device.timer.tick_ns

    def close(self) -> None:
        """Free the buffers."""
        for array in self._host if self.options.pinned else ():
            array.base.release(self.device.queue)  # type: ignore[union-attr]
        for contents in self._sets:
            for each in contents.values():
                each.copy.release()
        super().close()

    def _map(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a page-locked host array."""
        cl = self.device.cl
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        buffer = cl.Buffer(self.device.context, flags, max(size, 1))
        both = cl.map_flags.READ | cl.map_flags.WRITE
        array: np.ndarray = cl.enqueue_map_buffer(self.device.queue, buffer, both, 0, shape, dtype)[0]
        return array

    def _lay_out(self, program: Program) -> dict[str, Any]:
        """Return a program's scratch buffers as parts of the arena."""
        alignment = max(self.device.handle.mem_base_addr_align // 8, 1)
        origins, end = {}, 0
        for name, spec in program.scratch.items():
            origins[name] = end
            end += -(-max(spec.nbytes, 1) // alignment) * alignment
        if end > self.scratch.size:  # earlier runnables keep the arena that they are bound to
            self.scratch = self.memory.allocate("scratch", (end,), np.dtype(np.uint8))
        return {
            name: self.memory.part(self.scratch, origin, max(program.scratch[name].nbytes, 1))
            for name, origin in origins.items()
        }

    def _step(self, built: Any, step: Step, buffers: Mapping[str, Any], kernels: list[Any]) -> Enqueue:
        cl, queue = self.device.cl, self.device.queue
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
            known = ", ".join(built.kernel_names.split(";"))
            raise LaunchError(f"the program has no kernel {step.kernel}; there are {known}") from None
        if kernel.num_args != len(step.args):
            raise LaunchError(f"{step.kernel} has {kernel.num_args} parameters and is given {len(step.args)} arguments")
        kernel.set_args(*(buffers[value] if isinstance(value, str) else as_scalar(value) for value in step.args))
        self._check_group(kernel, step)
        kernels.append(kernel)
        grid, block = _same_length(step.grid, step.block)
        items = tuple(groups * size for groups, size in zip(grid, block, strict=True))
        return lambda after: cl.enqueue_nd_range_kernel(queue, kernel, items, block, wait_for=after)

    def _check_group(self, kernel: Any, step: Launch) -> None:
        """Refuse a group that the device cannot run, naming the limit: the driver would only give a code."""
        device, info = self.device.handle, self.device.cl.kernel_work_group_info
        items = int(np.prod(step.block))
        # A kernel that states its group size was compiled to fit it, whatever the device answers for a free size.
        stated = any(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
        most = device.max_work_group_size if stated else kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
        needed = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)
        sides = zip(step.block, device.max_work_item_sizes, strict=False)
        for excess in (
            compare("work-items a group", items, most),
            *(compare(f"work-items in dimension {number}", *side) for number, side in enumerate(sides)),
            compare("local memory a group", needed, device.local_mem_size, "bytes"),
        ):
            if excess:
                raise ImpossibleError(f"{excess} of kernel {step.kernel}")

    def _build_facts(self, kernels: Sequence[Any], log: str, build_ns: int) -> BuildFacts:
        """Return the resources: registers and spills from NVIDIA's compiler log, local memory from OpenCL."""
        logged = read_resources(log)
        used = [logged[kernel.function_name] for kernel in kernels if kernel.function_name in logged]
        info = self.device.cl.kernel_work_group_info.LOCAL_MEM_SIZE
        local = [kernel.get_work_group_info(info, self.device.handle) for kernel in kernels]
        return replace(most_of(used), shared_bytes=max(local, default=None), build_ns=build_ns, log=log)


def _same_length(grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return both with as many dimensions as the longer one has."""
    length = max(len(grid), len(block))
    return (*grid, 1, 1)[:length], (*block, 1, 1)[:length]
