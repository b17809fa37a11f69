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
        self.device = device
        self._pattern = device.upload(PATTERN)
        self._labels: list[str] = []
        self._guards: list[int] = []
        self._looking: tuple[PackedLaunch, Any] | None = None
        self._room: int | None = None

    def allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return a C-contiguous array between two guards; see `as_bits` for types that CuPy lacks."""
        cupy, like = self.device.cupy, as_bits(np.empty((0, *shape), dtype))
        shape, kind = like.shape[1:], like.dtype
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        with self.device.errors(f"allocate {label}"):
            memory = cupy.empty(size + 2 * GUARD_BYTES, cupy.uint8)
        self._labels.append(label)
        self._guards += [memory.data.ptr, memory.data.ptr + GUARD_BYTES + size]
        self._looking = None
        self._write_guards(self._guards[-2:])
        return cupy.ndarray(shape, kind, memptr=memory.data + GUARD_BYTES)

    def keep(self, contents: Sequence[Content]) -> None:
        """Copy the values to the device, and take their checksums."""
        if self._room is None:
            self._room = int(LEAST_FREE * self.device.cupy.cuda.runtime.memGetInfo()[0])
        new = [each for each in contents if each.copy is None]
        size = sum(each.host.nbytes for each in new)
        if size > self._room:
            raise DeviceMemoryError("keep a set of inputs", f"it has {size} bytes, and there is room for {self._room}")
        self._room -= size
        with self.device.errors("keep a set of inputs"):
            for each in contents:
                each.copy = self.device.upload(each.host, each.copy)
        for each, checksum in zip(contents, self._checksums(each.copy for each in contents), strict=True):
            each.checksum = checksum

    def write(self, buffer: Any, content: Content) -> None:
        """Copy within the device, or from the host."""
        if content.copy is None:
            self.device.upload(content.host, buffer)
        elif content.host.nbytes:
            copy = self.device.driver.cuMemcpyDtoDAsync
            call(copy(buffer.data.ptr, content.copy.data.ptr, buffer.nbytes, self.device.stream.ptr), "write an array")
        if content.checksum is None:
            (content.checksum,) = self._checksums([buffer])

    def fill(self, buffer: Any, byte: int) -> None:
        """Enqueue a fill."""
        memset = self.device.driver.cuMemsetD8Async
        call(memset(buffer.data.ptr, byte, buffer.nbytes, self.device.stream.ptr), "fill an array")

    def read(self, buffer: Any, array: Array) -> np.ndarray:
        """Copy to the host."""
        return self.read_at(buffer.data.ptr, array)

    def read_at(self, address: int, array: Array) -> np.ndarray:
        """Return the elements at an address as a host array of its own."""
        host = np.empty(array.shape, array.type)
        call(self.device.driver.cuMemcpyDtoH(host.ctypes.data, address, host.nbytes), "copy to the host")
        return host

    def holds(self, buffers: Mapping[str, Any], contents: Contents) -> Iterator[tuple[str, bool]]:
        """Compare checksums."""
        found = self._checksums(buffers.values())
        for name, checksum in zip(buffers, found, strict=True):
            yield name, checksum == contents[name].checksum

    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of the arrays with damage next to them."""
        with self.device.errors("read the guards"):
            launch, changed = self._looking = self._looking or self._make_look()
            launch(self.device.stream.ptr)
            found = self.read(changed, Array((len(self._labels), 2), "uint32"))
        return tuple(label for label, sides in zip(self._labels, found, strict=True) if sides.any())

    def _make_look(self) -> tuple[PackedLaunch, Any]:
        """Return the launch that looks at all guards, and the array of what it finds."""
        addresses = self.device.upload(np.array(self._guards, np.uint64))
        changed = self.device.cupy.empty(len(self._guards), self.device.cupy.uint32)
        arguments = [addresses.data.ptr, self._pattern.data.ptr, np.uint32(GUARD_BYTES), changed.data.ptr]
        launch = self.device.kernels.launch("guards", len(self._guards), THREADS, arguments)
        launch.keep([addresses])
        return launch, changed

    def mend(self) -> None:
        """Rewrite all guards."""
        self._write_guards(self._guards)

    def wait(self) -> None:
        """Wait for the stream."""
        with self.device.errors("write the arrays"):
            self.device.stream.synchronize()

    def free(self) -> None:
        """Give the device's and the page-locked memory back."""
        self._looking = None
        self.device.cupy.get_default_memory_pool().free_all_blocks()
        self.device.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def _checksums(self, arrays: Iterable[Any]) -> list[int]:
        with self.device.errors("take checksums of the inputs"):
            return self.device.kernels.checksums(tuple((array.data.ptr, array.nbytes) for array in arrays))

    def _write_guards(self, addresses: list[int]) -> None:
        copy = self.device.driver.cuMemcpyDtoDAsync
        for address in addresses:
            call(copy(address, self._pattern.data.ptr, GUARD_BYTES, self.device.stream.ptr), "write a guard")
