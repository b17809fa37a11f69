"""The variants that are built and bound to the buffers of one problem on an OpenCL device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cuprof.backends.contract import Draw, Draws, Frame, ReadingOptions, Runnable, Session
from cuprof.backends.declared import find_mismatch
from cuprof.backends.opencl.memory import OpenClMemory
from cuprof.builds.ptxas import most_of, read_resources
from cuprof.core.errors import ImpossibleError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Measure
from cuprof.core.text import compare
from cuprof.families import Arrays, Copy, Fill, Launch, Program, Signature, Variant
from cuprof.families.program import Step, as_scalar

if TYPE_CHECKING:
    from cuprof.backends.opencl.backend import OpenClBackend

Enqueue = Callable[[Sequence[Any]], Any]
"""Enqueue one step after the given events and return its event."""


class OpenClSession(Session[Runnable]):
    """Inputs, outputs and scratch of one problem in device memory."""

    def __init__(
        self, device: OpenClBackend, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int
    ) -> None:
        self.device = device
        super().__init__(OpenClMemory(device), signature, inputs, options, scratch_bytes)

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> Runnable:
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
            buffers = self._lay_out(program)
            kernels: list[Any] = []
            steps = [self._step(built, step, buffers, kernels) for step in program.steps]
            setup = [partial(self._step(built, step, buffers, kernels), ()) for step in program.setup]
            facts = self._build_facts(kernels, log, build_ns)

        def enqueue(after: Sequence[Any] = (), keep: Any = (buffers, self.scratch)) -> list[Any]:
            # A kernel does not keep the buffers alive that it has as arguments; `keep` does.
            return [step(() if number else after) for number, step in enumerate(steps)]

        found = self._find_results(program, buffers)
        return Runnable(enqueue, build=facts, steps=len(steps), setup=tuple(setup), **found)

    def run(self, runnable: Runnable, count: int = 1) -> None:
        """Execute back to back and wait."""
        with self.device.errors("launch"):
            events = [event for _ in range(count) for event in runnable.enqueue()]
        with self.device.errors("execute", waiting=True):
            self.device.cl.wait_for_events(events)
            self.device.queue.finish()

    def begin(self, runnable: Runnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Execute and time; see `OpenClTimer` for each measure."""
        timer = self.device.timer
        self.give(runnable, draw())
        with self.device.errors("execute", waiting=True):
            if measure is Measure.TOTAL:
                uploads, downloads = self._transfers(runnable)
                return Frame.ended(timer.total_time(uploads, runnable.enqueue, downloads))
            flush = self.options.flush if measure is Measure.COLD else "none"
            return Frame.ended(timer.kernel_time(runnable.enqueue, flush, batch, self.options.blocking))

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of the device's profiling events; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.device.timer.tick_ns

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
            if excess is not None:
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
