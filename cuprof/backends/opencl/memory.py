"""Memory of an OpenCL device: buffers between guard bytes, which show when a kernel has written outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cuprof.backends.buffers import GUARD_BYTES, PATTERN, Content, Contents, Memory
from cuprof.core.errors import DeviceMemoryError
from cuprof.families import Array


class OpenClMemory(Memory[Any]):
    """Sub-buffers of at least a byte, each of an allocation that has a guard on either side.

    Args:
        device: the `OpenClBackend`.
    """

    def __init__(self, device: Any) -> None:
        self.device, self.cl, self.queue = device, device.cl, device.queue
        self.alignment = max(device.handle.mem_base_addr_align // 8, 1)
        self._origin = -(-GUARD_BYTES // self.alignment) * self.alignment
        """Bytes from the start of an allocation to its sub-buffer."""
        self._wholes: list[tuple[str, Any]] = []
        self._parts: dict[int, Any] = {}

    def allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return a sub-buffer between two guards."""
        size = max(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, 1)
        whole = self.cl.Buffer(self.device.context, self.cl.mem_flags.READ_WRITE, self._origin + size + GUARD_BYTES)
        self._wholes.append((label, whole))
        self._write_guards(whole)
        buffer = whole.get_sub_region(self._origin, size)
        self._parts[buffer.int_ptr] = whole
        return buffer

    def part(self, buffer: Any, start: int, array: Array) -> Any:
        """Return a sub-buffer; OpenCL makes none of a sub-buffer."""
        return self._parts[buffer.int_ptr].get_sub_region(self._origin + start, max(array.nbytes, 1))

    def keep(self, contents: Sequence[Content]) -> None:
        """Copy the values into buffers of their own."""
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        try:
            for each in contents:
                host = each.host if each.host.nbytes else np.zeros(1, np.uint8)
                if each.copy is None:
                    each.copy = self.cl.Buffer(self.device.context, flags, hostbuf=host)
                self.cl.enqueue_copy(self.queue, each.copy, host)  # memory is given at first use
            self.queue.finish()
        except self.cl.Error as error:
            raise DeviceMemoryError("keep a set of inputs", str(error).splitlines()[0]) from error

    def write(self, buffer: Any, content: Content) -> None:
        """Enqueue a copy."""
        if content.copy is not None:
            self.copy(buffer, content.copy, content.host.nbytes)
        elif content.host.nbytes:
            with self.device.errors("write the inputs", waiting=True):
                self.cl.enqueue_copy(self.queue, buffer, content.host)

    def copy(self, target: Any, source: Any, size: int) -> None:
        """Enqueue a copy within the device."""
        if size:
            with self.device.errors("copy a buffer", waiting=True):
                self.cl.enqueue_copy(self.queue, target, source, byte_count=size)

    def fill(self, buffer: Any, byte: int, start: int = 0, size: int | None = None) -> None:
        """Enqueue a fill."""
        with self.device.errors("fill a buffer", waiting=True):
            self.cl.enqueue_fill_buffer(self.queue, buffer, np.uint8(byte), start, size or buffer.size)

    def read(self, buffer: Any, array: Array) -> np.ndarray:
        """Copy to the host."""
        host = np.empty(array.shape, array.type)
        with self.device.errors("read a buffer", waiting=True):
            self.cl.enqueue_copy(self.queue, host, buffer)
        return host

    def holds(self, buffers: Mapping[str, Any], contents: Contents) -> Iterator[tuple[str, bool]]:
        """Compare on the host."""
        for name, buffer in buffers.items():
            found = np.empty_like(contents[name].host)
            self.cl.enqueue_copy(self.queue, found, buffer)
            yield name, found.tobytes() == contents[name].host.tobytes()

    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of what has damage next to it."""
        return tuple(label for label, whole in self._wholes if not self._is_sound(whole))

    def mend(self) -> None:
        """Rewrite all guards."""
        for _, whole in self._wholes:
            self._write_guards(whole)

    def host_array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a page-locked array."""
        size, flags = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, self.cl.mem_flags
        buffer = self.cl.Buffer(self.device.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, max(size, 1))
        both = self.cl.map_flags.READ | self.cl.map_flags.WRITE
        array: np.ndarray = self.cl.enqueue_map_buffer(self.queue, buffer, both, 0, shape, dtype)[0]
        return array

    def wait(self, what: str = "write the arrays") -> None:
        """Wait for the queue."""
        with self.device.errors(what, waiting=True):
            self.queue.finish()

    def free(self) -> None:
        """Release the allocations."""
        self.queue.finish()
        for _, whole in self._wholes:
            whole.release()
        self._wholes, self._parts = [], {}

    def _is_sound(self, whole: Any) -> bool:
        found = np.empty_like(PATTERN)
        for start in self._guards(whole):
            self.cl.enqueue_copy(self.queue, found, whole, src_offset=start)
            if not np.array_equal(found, PATTERN):
                return False
        return True

    def _write_guards(self, whole: Any) -> None:
        for start in self._guards(whole):
            self.cl.enqueue_copy(self.queue, whole, PATTERN, dst_offset=start)

    def _guards(self, whole: Any) -> tuple[int, int]:
        return self._origin - GUARD_BYTES, whole.size - GUARD_BYTES
