"""Memory of a CUDA device that two processes share by a file descriptor, as rows of bytes; see `BackendSpec.shared`.

It comes from the driver's virtual memory management. Its descriptors pass into a sandbox with namespaces of its own,
which the handles of `cuIpcGetMemHandle` do not.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from cuprof.backends.cuda.driver import call, load_driver, read_attribute


class SharedCudaMemory:
    """Rows in the memory of a device; see `SharedHostMemory`.

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
        self._size, kinds = self._round(count * stride), self._driver.CUmemAllocationHandleType
        kind = kinds.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        if handle is None:
            made = call(self._driver.cuMemCreate(self._size, self._properties, 0), "allocate shared memory")
            handle = int(call(self._driver.cuMemExportToShareableHandle(made, kind, 0), "share memory"))
        else:
            made = call(self._driver.cuMemImportFromShareableHandle(handle, kind), "open shared memory")
        self.handle = handle
        self._address = int(call(self._driver.cuMemAddressReserve(self._size, 0, 0, 0), "reserve addresses"))
        call((*self._driver.cuMemMap(self._address, self._size, 0, made, 0),), "map shared memory")
        call((*self._driver.cuMemRelease(made),), "map shared memory")  # the mapping keeps it
        access = self._driver.CUmemAccessDesc()
        access.location = self._properties.location
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

    @property
    def _properties(self) -> Any:
        wanted = self._driver.CUmemAllocationProp()
        wanted.type = self._driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kinds = self._driver.CUmemAllocationHandleType
        wanted.requestedHandleTypes = kinds.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        wanted.location.type = self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = self._index
        return wanted

    def _round(self, size: int) -> int:
        """Return the size of an allocation for this number of bytes."""
        flag = self._driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        step = int(call(self._driver.cuMemGetAllocationGranularity(self._properties, flag), "ask for shared memory"))
        return -(-size // step) * step
