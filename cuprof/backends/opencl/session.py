"""The buffers of one problem on an OpenCL device, and the variants that are built and bound to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuprof.backends.contract import (
    FIRST_INPUTS,
    POISON_BYTE,
    Draw,
    Draws,
    Frame,
    InputSet,
    ReadingOptions,
    Session,
    first_draw,
)
from cuprof.backends.declared import find_mismatch
from cuprof.backends.opencl.device import OpenClDevice
from cuprof.backends.opencl.guards import GuardedBuffer
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
    arena: GuardedBuffer
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
        self.device, self.options, self.signature = device, options, signature
        self._host_inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        self._guarded: list[tuple[str, GuardedBuffer]] = []
        self.inputs = {
            name: self._allocate(f"input {name}", array.nbytes).part(0, max(array.nbytes, 1))
            for name, array in self._host_inputs.items()
            if name not in signature.outputs
        }
        self.outputs = {
            name: self._allocate(f"output {name}", spec.nbytes).part(0, max(spec.nbytes, 1))
            for name, spec in signature.outputs.items()
        }
        self.restored = {name: self.inputs[name] if name in self.inputs else self.outputs[name] for name in inputs}
        """Arrays that need contents before an execution: the inputs, and the outputs that are updated in place."""
        self.arena = self._allocate("scratch", scratch_bytes)
        self._pinned: tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[Any]] | None = None
        self._sets: list[dict[str, np.ndarray]] = []
        self._contents: list[dict[str, Any]] = []
        self._in_place = self._host_inputs
        self._upload(inputs)

    def stock(self, sets: Sequence[InputSet]) -> int:
        """Keep the contents of the sets in device memory, as many as it takes."""
        self._contents, self._sets = [], []
        is_in_place = len(self.restored) > len(self.inputs)
        if self.options.flush == "none" and not is_in_place:
            return 0  # writing the inputs would warm the caches
        cl = self.device.cl
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        for each in sets:
            host = {name: np.ascontiguousarray(array) for name, array in each.inputs.items()}
            try:
                held = {
                    name: cl.Buffer(self.device.context, flags, hostbuf=array)
                    for name, array in host.items()
                    if array.nbytes
                }
                for name, buffer in held.items():  # memory is given at first use
                    cl.enqueue_copy(self.device.queue, self.restored[name], buffer, byte_count=host[name].nbytes)
                self.device.queue.finish()
            except cl.Error:
                break
            self._contents.append(held)
            self._sets.append(host)
            self._in_place = host
        if is_in_place and not self._sets:
            raise LaunchError("there is no memory for a copy of what is worked on in place")
        if self._sets:
            self._give(FIRST_INPUTS)
        return len(self._sets)

    def restock(self, number: int, inputs: Arrays) -> None:
        """Keep other contents as the set of this number."""
        host = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        with self.device.errors("keep a set of inputs", waiting=True):
            for name, buffer in self._contents[number].items():
                self.device.cl.enqueue_copy(self.device.queue, buffer, host[name])
            self.device.queue.finish()
        self._sets[number] = host

    def execute(self, runnable: OpenClRunnable, *draws: Draw) -> None:
        """Execute once as each draw says."""
        for draw in draws:
            with self.device.errors("execute", waiting=True):
                self._give(draw, runnable)
            self.run(runnable)

    def _give(self, draw: Draw, runnable: OpenClRunnable | None = None) -> None:
        """Enqueue the writing of inputs, outputs and scratch as drawn."""
        if not self._contents:
            return
        cl, queue, host = self.device.cl, self.device.queue, self._sets[draw.inputs]
        for name, buffer in self._contents[draw.inputs].items():
            cl.enqueue_copy(queue, self.restored[name], buffer, byte_count=host[name].nbytes)
        self._in_place = host
        self._fill(draw.fill, runnable)
        queue.finish()

    def _fill(self, byte: int, runnable: OpenClRunnable | None) -> None:
        """Enqueue the overwriting of outputs with a byte, and of a runnable's scratch, which is then set up."""
        for name, buffer in self.outputs.items():
            if name not in self.restored:
                self.device.cl.enqueue_fill_buffer(self.device.queue, buffer, np.uint8(byte), 0, buffer.size)
        if runnable is not None:
            runnable.arena.fill(byte)
            for step in runnable.setup:
                step([])

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs that were overwritten, by comparing with the host's copy."""
        return tuple(name for name in self.inputs if not self._is_intact(name, self._in_place[name]))

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return the buffers with damage next to them ("input x", "output y", "scratch")."""
        return tuple(label for label, buffer in self._guarded if not buffer.is_sound)

    def restore_inputs(self, inputs: Arrays) -> None:
        """Copy the inputs to the device again, and rewrite all guard bytes."""
        self._upload(inputs)
        self._in_place = self._host_inputs
        for _, buffer in self._guarded:
            buffer.mend()

    def _upload(self, inputs: Arrays) -> None:
        for name, array in inputs.items():
            if array.nbytes:
                self.device.cl.enqueue_copy(self.device.queue, self.restored[name], np.ascontiguousarray(array))
        self.device.queue.finish()

    def _allocate(self, label: str, size: int) -> GuardedBuffer:
        buffer = GuardedBuffer(self.device.cl, self.device.queue, max(size, 1))
        self._guarded.append((label, buffer))
        return buffer

    def _is_intact(self, name: str, array: np.ndarray) -> bool:
        found = np.empty_like(array)
        self.device.cl.enqueue_copy(self.device.queue, found, self.inputs[name])
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
        built, log = self.device.build(text, variant.source or variant.name, program)
        build_ns = time.monotonic_ns() - started
        arrays = {**self.signature.inputs, **self.signature.outputs, **program.scratch}
        if fault := find_mismatch(program, text, {name: array.type for name, array in arrays.items()}):
            raise LaunchError(fault)
        with self.device.errors(f"prepare {variant.name}"):
            buffers, sizes = self._buffers(program)
            kernels: list[Any] = []
            steps = tuple(self._step(built, step, buffers, sizes, kernels) for step in program.steps)
            setup = tuple(self._step(built, step, buffers, sizes, kernels) for step in program.setup)
            results = {name: buffers[program.find_result(name)] for name in self.signature.outputs}
            facts = self._build_facts(kernels, log, build_ns)
        reduced = {name: each for name, each in program.results.items() if isinstance(each, Reduced)}
        parts = {name: (each, program.scratch[each.buffer]) for name, each in reduced.items()}
        return OpenClRunnable(steps, results, self.arena, facts, tuple(buffers.values()), setup, parts)

    def poison(self, runnable: OpenClRunnable, byte: int = POISON_BYTE) -> None:
        """Overwrite outputs and scratch."""
        with self.device.errors("poison the buffers", waiting=True):
            self._upload({name: array for name, array in self._in_place.items() if name in self.outputs})
            self._fill(byte, runnable)
            self.device.queue.finish()

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
            host = np.empty(held.shape, held.type)
            with self.device.errors(f"fetch output {name}", waiting=True):
                self.device.cl.enqueue_copy(self.device.queue, host, runnable.results[name])
            found[name] = own.put_together(host, spec.shape) if own else host
        return found

    def begin(self, runnable: OpenClRunnable, measure: Measure, batch: int = 1, draw: Draws = first_draw) -> Frame:
        """Execute and time; see `OpenClTimer` for each measure."""
        timer, drawn = self.device.timer, draw()
        with self.device.errors("execute", waiting=True):
            self._give(drawn, runnable)
            if measure is Measure.TOTAL:
                inputs, outputs = self._host_buffers()
                for name, array in (self._sets[drawn.inputs] if self._sets else self._host_inputs).items():
                    inputs[name][...] = array
                uploads = [(self.restored[name], array) for name, array in inputs.items()]
                downloads = [(array, runnable.results[name]) for name, array in outputs.items()]
                return Frame.ended(timer.total_time(uploads, runnable.actions, downloads))
            flush = self.options.flush if measure is Measure.COLD else "none"
            return Frame.ended(timer.kernel_time(runnable.actions, flush, batch, self.options.blocking))

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of the device's profiling events; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.device.timer.tick_ns

    def close(self) -> None:
        """Free the buffers."""
        if self._pinned is not None:
            for mapping in self._pinned[2]:
                mapping.base.release(self.device.queue)
        self.device.queue.finish()
        held = [buffer for contents in self._contents for buffer in contents.values()]
        guarded = [each.memory for _, each in self._guarded]
        for buffer in (*self.inputs.values(), *self.outputs.values(), *guarded, *held):
            buffer.release()
        self._contents, self._sets = [], []
        self.inputs, self.outputs, self.restored, self._guarded, self._pinned = {}, {}, {}, [], None

    def _buffers(self, program: Program) -> tuple[dict[str, Any], dict[str, int]]:
        """Return every buffer by name and its size; scratch buffers are parts of the arena."""
        alignment = max(self.device.handle.mem_base_addr_align // 8, 1)
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
        self, built: Any, step: Step, buffers: Mapping[str, Any], sizes: Mapping[str, int], kernels: list[Any]
    ) -> Enqueue:
        cl, queue = self.device.cl, self.device.queue
        if isinstance(step, Fill):
            buffer, size, pattern = buffers[step.buffer], sizes[step.buffer], np.uint8(step.value)
            return lambda after: cl.enqueue_fill_buffer(queue, buffer, pattern, 0, size, wait_for=after)
        if isinstance(step, Copy):
            source, target = buffers[step.source], buffers[step.target]
            count = min(sizes[step.source], sizes[step.target])
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
            if excess is not None:
                raise ImpossibleError(f"{excess} of kernel {step.kernel}")

    def _build_facts(self, kernels: Sequence[Any], log: str, build_ns: int) -> BuildFacts:
        """Return the resources: registers and spills from NVIDIA's compiler log, local memory from OpenCL."""
        logged = read_resources(log)
        used = [logged[kernel.function_name] for kernel in kernels if kernel.function_name in logged]
        info = self.device.cl.kernel_work_group_info.LOCAL_MEM_SIZE
        local = [kernel.get_work_group_info(info, self.device.handle) for kernel in kernels]
        return replace(most_of(used), shared_bytes=max(local, default=None), build_ns=build_ns, log=log)

    def _host_buffers(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return host arrays to transfer from and to, page-locked if the options say so."""
        if self._pinned is None:
            mappings: list[Any] = []
            inputs = {
                name: self._host_array(array.shape, array.dtype, mappings) for name, array in self._host_inputs.items()
            }
            outputs = {
                name: self._host_array(spec.shape, spec.type, mappings) for name, spec in self.signature.outputs.items()
            }
            self._pinned = (inputs, outputs, mappings)
        return self._pinned[:2]

    def _host_array(self, shape: tuple[int, ...], dtype: np.dtype, mappings: list[Any]) -> np.ndarray:
        if not self.options.pinned:
            return np.empty(shape, dtype)
        cl = self.device.cl
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = cl.Buffer(self.device.context, flags, max(size, 1))
        both = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self.device.queue, buffer, both, 0, shape, dtype)
        mappings.append(array)
        return array  # type: ignore[no-any-return]


def _same_length(grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return both with as many dimensions as the longer one has."""
    length = max(len(grid), len(block))
    return (*grid, 1, 1)[:length], (*block, 1, 1)[:length]
