"""How OpenCL executions are timed: by the profiling events of an in-order queue.

Raise `timing_version` in registry.py when a change here changes the meaning of a number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.backends.contract import Reading, smallest_step

GPU_CACHE_BYTES = 64 << 20
"""Assume at least this cache for a GPU: the global memory cache that drivers report is not always the L2 cache."""
GPU_FLUSH_FACTOR = 4
"""Read this many times a GPU's cache to flush it; its replacement policy is not strictly least-recently-used."""
CPU_FLUSH_FACTOR = 2
TICK_READINGS = 100
READER_GROUPS_PER_UNIT = 8
READER_ITEMS = 256

Enqueue = Callable[..., list[Any]]
"""Enqueue an execution, which begins after the given events, and return its steps' events."""


class OpenClTimer:
    """Times executions on one queue.

    A kernel time runs from the start of the first step to the end of the last one, as the device's events say: steps
    and the gaps between them count, launch latency before the first does not. The first step waits for a user event
    that is set once all are enqueued, so that a slow host does not widen the gaps. Events have a resolution of their
    own (`profiling_timer_resolution`); nothing is subtracted.

    Args:
        backend: the open `OpenClBackend`.
    """

    def __init__(self, backend: Any) -> None:
        cl, context = backend.cl, backend.context
        self.cl, self.context, self.queue, self.device = cl, context, backend.queue, backend.handle
        self.is_cpu = bool(self.device.type & cl.device_type.CPU)
        least = 0 if self.is_cpu else GPU_CACHE_BYTES
        self.cache_bytes = max(int(self.device.global_mem_cache_size), least)
        self.program = cl.Program(context, (Path(__file__).parent / "device_kernels.cl").read_text()).build()
        self._sink = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
        factor = CPU_FLUSH_FACTOR if self.is_cpu else GPU_FLUSH_FACTOR
        size = min(max(factor * self.cache_bytes, 1 << 20), int(self.device.max_mem_alloc_size)) // 4096 * 4096
        self._flush_buffer = self.filled_buffer(size)
        self._flush = self.reader(self._flush_buffer)
        self.empty = self._kernel("empty", 1, 1, [self._sink])

    @cached_property
    def tick_ns(self) -> float:
        """Return the step of the events' times, measured with empty kernels: drivers report a coarser one."""
        batches = (1 + number % 2 for number in range(TICK_READINGS))
        return smallest_step([self.kernel_time(self.empty, "none", each).duration_ns * each for each in batches])

    def filled_buffer(self, size: int) -> Any:
        """Return a device buffer of ones, `size` bytes."""
        buffer = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, size)
        self.cl.enqueue_fill_buffer(self.queue, buffer, np.uint8(1), 0, size)
        return buffer

    def reader(self, buffer: Any) -> Enqueue:
        """Return what reads the whole buffer, whose size is a multiple of 64 bytes."""
        groups = READER_GROUPS_PER_UNIT * self.device.max_compute_units
        if self.is_cpu:
            return self._kernel("read_apart", groups, 1, [buffer, np.uint32(buffer.size // 64), self._sink])
        items = min(READER_ITEMS, self.device.max_work_group_size)
        return self._kernel("read_together", groups, items, [buffer, np.uint32(buffer.size // 16), self._sink])

    def kernel_time(self, enqueue: Enqueue, flush: str, batch: int = 1, blocking: bool = True) -> Reading:
        """Time `batch` executions back to back, as `ReadingOptions` say; the duration is one execution's share."""
        cl, queue = self.cl, self.queue
        if flush == "clean":
            self._flush()
        elif flush == "dirty":
            cl.enqueue_fill_buffer(queue, self._flush_buffer, np.uint8(2), 0, self._flush_buffer.size)
        queue.finish()
        gate = cl.UserEvent(self.context) if blocking else None
        try:
            events = enqueue([] if gate is None else [gate])
            for _ in range(batch - 1):
                events += enqueue()
            queue.flush()
        finally:
            if gate is not None:
                gate.set_status(cl.command_execution_status.COMPLETE)
        cl.wait_for_events(events)
        started = min(event.profile.start for event in events)
        ended = max(event.profile.end for event in events)
        return Reading((ended - started) / batch)

    def total_time(
        self, uploads: Sequence[tuple[Any, Any]], enqueue: Enqueue, downloads: Sequence[tuple[Any, Any]]
    ) -> Reading:
        """Time transfers and execution by the host's clock, from before the first copy until the last has arrived.

        Args:
            uploads: (device buffer, host array) copied before the execution.
            downloads: (host array, device buffer) copied after it.
        """
        copy, queue = self.cl.enqueue_copy, self.queue
        queue.finish()
        started = time.perf_counter_ns()
        pending = [copy(queue, target, source, is_blocking=False) for target, source in uploads]
        pending += enqueue()
        pending += [copy(queue, target, source, is_blocking=False) for target, source in downloads]
        queue.finish()
        elapsed = float(time.perf_counter_ns() - started)
        self.cl.wait_for_events(pending)  # raises where one of them failed
        return Reading(elapsed)

    def _kernel(self, name: str, groups: int, items: int, arguments: Sequence[Any]) -> Enqueue:
        kernel = self.cl.Kernel(self.program, name)
        kernel.set_args(*arguments)
        size, group = (groups * items,), (items,)

        def enqueue(after: Sequence[Any] = (), keep: Sequence[Any] = arguments) -> list[Any]:
            # A kernel does not hold the memory that it has as an argument; `keep` does.
            return [self.cl.enqueue_nd_range_kernel(self.queue, kernel, size, group, wait_for=after)]

        return enqueue
