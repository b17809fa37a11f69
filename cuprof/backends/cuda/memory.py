"""Memory of a CUDA device: arrays between guard bytes, which show when a kernel has written outside.

The driver rounds allocations up, and arrays of one problem lie side by side, so a kernel that writes past an end raises
no error. A block checks one guard, all guards with one launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cuprof.backends.buffers import GUARD_BYTES, PATTERN, Content, Contents, Memory
from cuprof.backends.cuda.device import CudaDevice, as_bits
from cuprof.backends.cuda.driver import PackedLaunch, call
from cuprof.core.errors import DeviceMemoryError
from cuprof.families import Array

THREADS = 256
LEAST_FREE = 0.5
"""Keep sets of inputs in at most this share of the memory that is free before the first one."""


class CudaMemory(Memory[Any]):
    """Arrays of CuPy, aligned as CuPy's own are. What happens to them is in the order of the legacy default stream."""

    def __init__(self, device: CudaDevice) -> None:
        self.device, self.errors = device, device.errors
        self._pattern = device.upload(PATTERN)
        self._labels: list[str] = []
        self._guards: list[int] = []
        self._looking: tuple[PackedLaunch, Any] | None = None
        self._room: int | None = None

    def allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return a C-contiguous array between two guards; see `as_bits` for types that CuPy lacks."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with self.errors(f"allocate {label}"):
            memory = self.device.cupy.empty(size + 2 * GUARD_BYTES, np.uint8)
        self._labels.append(label)
        self._guards += [memory.data.ptr, memory.data.ptr + GUARD_BYTES + size]
        self._looking = None
        self._write_guards(self._guards[-2:])
        return self._view(memory.data + GUARD_BYTES, shape, dtype)

    def part(self, buffer: Any, start: int, array: Array) -> Any:
        """Return a view."""
        return self._view(buffer.data + start, array.shape, array.type)

    def _view(self, place: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        like = as_bits(np.empty((0, *shape), dtype))
        return self.device.cupy.ndarray(like.shape[1:], like.dtype, memptr=place)

    def keep(self, contents: Sequence[Content]) -> None:
        """Copy the values to the device, and take their checksums."""
        if self._room is None:
            self._room = int(LEAST_FREE * self.device.cupy.cuda.runtime.memGetInfo()[0])
        size = sum(each.host.nbytes for each in contents if each.copy is None)
        if size > self._room:
            raise DeviceMemoryError("keep a set of inputs", f"it has {size} bytes, and there is room for {self._room}")
        self._room -= size
        with self.errors("keep a set of inputs"):
            for each in contents:
                each.copy = self.device.upload(each.host, each.copy)
        for each, checksum in zip(contents, self._checksums(each.copy for each in contents), strict=True):
            each.checksum = checksum

    def write(self, buffer: Any, content: Content) -> None:
        """Copy within the device, or from the host."""
        if content.copy is None:
            self.device.upload(content.host, buffer)
        else:
            self.copy(buffer, content.copy, buffer.nbytes)
        if content.checksum is None:
            (content.checksum,) = self._checksums([buffer])

    def copy(self, target: Any, source: Any, size: int) -> None:
        """Enqueue a copy."""
        if size:
            self._copy(target.data.ptr, source.data.ptr, size)

    def fill(self, buffer: Any, byte: int, start: int = 0, size: int | None = None) -> None:
        """Enqueue a fill."""
        memset, count = self.device.driver.cuMemsetD8Async, buffer.nbytes if size is None else size
        call(memset(buffer.data.ptr + start, byte, count, self.device.stream.ptr), "fill an array")

    def read(self, buffer: Any, array: Array) -> np.ndarray:
        """Copy to the host."""
        host = np.empty(array.shape, array.type)
        call(self.device.driver.cuMemcpyDtoH(host.ctypes.data, buffer.data.ptr, host.nbytes), "copy to the host")
        return host

    def holds(self, buffers: Mapping[str, Any], contents: Contents) -> Iterator[tuple[str, bool]]:
        """Compare checksums."""
        for name, checksum in zip(buffers, self._checksums(buffers.values()), strict=True):
            yield name, checksum == contents[name].checksum

    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of the arrays with damage next to them."""
        with self.errors("read the guards"):
            launch, changed = self._looking = self._looking or self._make_look()
            launch(self.device.stream.ptr)
            found = self.read(changed, Array((len(self._labels), 2), "uint32"))
        return tuple(label for label, sides in zip(self._labels, found, strict=True) if sides.any())

    def _make_look(self) -> tuple[PackedLaunch, Any]:
        """Return the launch that looks at all guards, and the array of what it finds."""
        addresses = self.device.upload(np.array(self._guards, np.uint64))
        changed = self.device.cupy.empty(len(self._guards), np.uint32)
        arguments = [addresses.data.ptr, self._pattern.data.ptr, np.uint32(GUARD_BYTES), changed.data.ptr]
        launch = self.device.launch("guards", len(self._guards), THREADS, arguments)
        launch.keep([addresses])
        return launch, changed

    def mend(self) -> None:
        """Rewrite all guards."""
        self._write_guards(self._guards)

    def host_array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a page-locked array."""
        return self.device.pinned_array(shape, dtype)

    def wait(self, what: str = "write the arrays") -> None:
        """Wait for the stream."""
        with self.errors(what):
            self.device.stream.synchronize()

    def free(self) -> None:
        """Give the device's and the page-locked memory back."""
        self._looking = None
        self.device.cupy.get_default_memory_pool().free_all_blocks()
        self.device.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def _checksums(self, arrays: Iterable[Any]) -> list[int]:
        with self.errors("take checksums of the inputs"):
            return self.device.checksums(tuple((array.data.ptr, array.nbytes) for array in arrays))

    def _write_guards(self, addresses: list[int]) -> None:
        for address in addresses:
            self._copy(address, self._pattern.data.ptr, GUARD_BYTES)

    def _copy(self, target: int, source: int, size: int) -> None:
        copy = self.device.driver.cuMemcpyDtoDAsync
        call(copy(target, source, size, self.device.stream.ptr), "copy an array")
