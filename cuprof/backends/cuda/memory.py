"""Memory of a CUDA device: arrays of one process, and rows of bytes that two processes share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from cuprof.backends.buffers import PATTERN, Content, Contents, Memory
from cuprof.backends.cuda.device import CudaDevice, as_bits
from cuprof.backends.cuda.driver import call, load_driver, read_attribute
from cuprof.core.errors import DeviceMemoryError
from cuprof.families import Array

LEAST_FREE = 0.5
"""Keep sets of inputs in at most this share of the memory that is free before the first one."""


class CudaMemory(Memory[Any]):
    """Arrays of CuPy, aligned as CuPy's own are. What happens to them is in the order of the legacy default stream."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self.device: CudaDevice = backend.device
        self.errors = self.device.errors
        self._guard = Content(PATTERN, self.device.upload(PATTERN), checksum=0)
        self._room: int | None = None

    def reserve(self, label: str, size: int) -> Any:
        """Return an array of bytes."""
        with self.errors(f"allocate {label}"):
            return self.device.cupy.empty(size, np.uint8)

    def part(self, buffer: Any, start: int, array: Array) -> Any:
        """Return a C-contiguous view; see `as_bits` for types that CuPy lacks."""
        like = as_bits(np.empty((0, *array.shape), array.type))
        return self.device.cupy.ndarray(like.shape[1:], like.dtype, memptr=buffer.data + start)

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

    def write(self, buffer: Any, content: Content, start: int = 0) -> None:
        """Copy within the device, or from the host."""
        if content.copy is None:
            self.device.upload(content.host, buffer)
        else:
            self.copy(buffer[start:] if start else buffer, content.copy, content.copy.nbytes)
        if content.checksum is None:
            (content.checksum,) = self._checksums([buffer])

    def copy(self, target: Any, source: Any, size: int) -> None:
        """Enqueue a copy."""
        if size:
            copy = self.device.driver.cuMemcpyDtoDAsync
            call(copy(target.data.ptr, source.data.ptr, size, self.device.stream.ptr), "copy an array")

    def fill(self, buffer: Any, byte: int, start: int = 0, size: int | None = None) -> None:
        """Enqueue a fill."""
        memset, count = self.device.driver.cuMemsetD8Async, buffer.nbytes if size is None else size
        call(memset(buffer.data.ptr + start, byte, count, self.device.stream.ptr), "fill an array")

    def read(self, buffer: Any, array: Array, start: int = 0) -> np.ndarray:
        """Copy to the host."""
        host, place = np.empty(array.shape, array.type), buffer.data.ptr + start
        call(self.device.driver.cuMemcpyDtoH(host.ctypes.data, place, host.nbytes), "copy to the host")
        return host

    def holds(self, buffers: Mapping[str, Any], contents: Contents) -> Iterator[tuple[str, bool]]:
        """Compare checksums."""
        for name, checksum in zip(buffers, self._checksums(buffers.values()), strict=True):
            yield name, checksum == contents[name].checksum

    def host_array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a page-locked array."""
        return self.device.pinned_array(shape, dtype)

    def wait(self, what: str = "write the arrays") -> None:
        """Wait for the stream."""
        with self.errors(what):
            self.device.stream.synchronize()

    def free(self) -> None:
        """Give the device's and the page-locked memory back."""
        super().free()
        self.device.cupy.get_default_memory_pool().free_all_blocks()
        self.device.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def _checksums(self, arrays: Iterable[Any]) -> list[int]:
        with self.errors("take checksums of the inputs"):
            return self.device.checksums(tuple((array.data.ptr, array.nbytes) for array in arrays))


class SharedCudaMemory:
    """Rows in the memory of a device, which two processes share by a file descriptor; see `SharedHostMemory`.

    It comes from the driver's virtual memory management. Its descriptors pass into a sandbox with namespaces of its
    own, which the handles of `cuIpcGetMemHandle` do not.

    Args:
        number: of the device.
        handle: of the memory that another process has made; None to make some.
    """

    is_host = False
    most_bytes = 4 << 30

    def __init__(self, count: int, stride: int, number: int | None = None, handle: int | None = None) -> None:
        import cupy

        self.array_module: Any = cupy
        self._driver, self._index = load_driver(), number or 0
        cupy.cuda.Device(self._index).use()
        cupy.cuda.runtime.free(0)
        wanted = self._driver.CUmemAllocationProp()
        wanted.type = self._driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind = self._driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        wanted.requestedHandleTypes = kind
        wanted.location.type = self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = self._index
        least = self._driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        step = call(self._driver.cuMemGetAllocationGranularity(wanted, least), "ask for shared memory")
        self._size = -(-count * stride // int(step)) * int(step)
        if handle is None:
            made = call(self._driver.cuMemCreate(self._size, wanted, 0), "allocate shared memory")
            handle = int(call(self._driver.cuMemExportToShareableHandle(made, kind, 0), "share memory"))
        else:
            made = call(self._driver.cuMemImportFromShareableHandle(handle, kind), "open shared memory")
        self.handle = handle
        self._address = int(call(self._driver.cuMemAddressReserve(self._size, 0, 0, 0), "reserve addresses"))
        call((*self._driver.cuMemMap(self._address, self._size, 0, made, 0),), "map shared memory")
        call((*self._driver.cuMemRelease(made),), "map shared memory")  # the mapping keeps it
        access = self._driver.CUmemAccessDesc()
        access.location = wanted.location
        access.flags = self._driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        call((*self._driver.cuMemSetAccess(self._address, self._size, [access], 1),), "open shared memory")
        held = cupy.cuda.UnownedMemory(self._address, self._size, self, self._index)
        self.rows = cupy.ndarray((count, stride), cupy.uint8, memptr=cupy.cuda.MemoryPointer(held, 0))

    @staticmethod
    def find_room(number: int | None) -> int:
        """Return how many bytes are free."""
        import cupy

        cupy.cuda.Device(number or 0).use()
        return int(cupy.cuda.runtime.memGetInfo()[0])

    @staticmethod
    @cache
    def get_junk(number: int | None) -> Any:
        """Return an array that displaces everything else from the L2 cache when it is read."""
        import cupy

        cupy.cuda.Device(number or 0).use()
        return cupy.ones(4 * read_attribute(number or 0, "L2_CACHE_SIZE") // 8)

    def use(self) -> None:
        """Make the device current in this thread."""
        self.array_module.cuda.Device(self._index).use()

    def wait(self) -> None:
        """Wait until the device has done what this process asked."""
        self.array_module.cuda.Stream.null.synchronize()

    def close(self) -> None:
        """Release the memory."""
        self.wait()
        os.close(self.handle)
        self._driver.cuMemUnmap(self._address, self._size)
        self._driver.cuMemAddressFree(self._address, self._size)
