"""Guard bytes around OpenCL buffers, which show when a kernel has written outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuprof.backends.guarded import GUARD_BYTES, PATTERN


class GuardedBuffer:
    """One buffer between two guards.

    Args:
        cl: the module pyopencl.
        queue: an in-order queue of the device.
        size: bytes between the guards.

    Attributes:
        size: as given.
        memory: the whole allocation; the part between the guards begins at `origin`.
        origin: bytes, a multiple of the device's alignment of sub-buffers.
    """

    def __init__(self, cl: Any, queue: Any, size: int) -> None:
        self.cl, self.queue, self.size = cl, queue, size
        alignment = max(queue.device.mem_base_addr_align // 8, 1)
        self.origin = -(-GUARD_BYTES // alignment) * alignment
        self.memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, self.origin + size + GUARD_BYTES)
        self.mend()

    def part(self, start: int, size: int) -> Any:
        """Return a sub-buffer; `start` counts from the first byte between the guards."""
        return self.memory.get_sub_region(self.origin + start, size)

    def fill(self, byte: int) -> None:
        """Overwrite everything between the guards."""
        self.cl.enqueue_fill_buffer(self.queue, self.memory, np.uint8(byte), self.origin, self.size)

    @property
    def is_sound(self) -> bool:
        """Return whether nothing has been written into the guards since they were made or mended."""
        found = np.empty_like(PATTERN)
        for start in self._guards():
            self.cl.enqueue_copy(self.queue, found, self.memory, src_offset=start)
            if not np.array_equal(found, PATTERN):
                return False
        return True

    def mend(self) -> None:
        """Rewrite the guards."""
        for start in self._guards():
            self.cl.enqueue_copy(self.queue, self.memory, PATTERN, dst_offset=start)

    def _guards(self) -> tuple[int, int]:
        return self.origin - GUARD_BYTES, self.origin + self.size
