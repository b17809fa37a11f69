"""Memory that two processes share by a file descriptor: of the host, or of a CUDA device."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cuprof.core.errors import DeviceMemoryError, LaunchError


class HostMemory:
    """Shared memory of the host.

    Attributes:
        handle: a file descriptor that another process maps; the file's size cannot be changed.
        rows: array of bytes, one row for each set.
        array_module: NumPy.
    """

    array_module: Any = np

    def __init__(self, count: int, stride: int) -> None:
        self.handle = os.memfd_create("cuprof", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.handle, count * stride)
        # A file that the other process cuts off would end this one at its next access.
        fcntl.fcntl(self.handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.rows = map_host(self.handle, count, stride)

    def wait(self) -> None:
        """Do nothing: what was written is there."""

    def close(self) -> None:
        """Release the memory."""
        os.close(self.handle)


class CudaMemory:
    """Shared memory of a CUDA device, from the driver's virtual memory management: its handles need no namespace."""

    def __init__(self, count: int, stride: int, index: int) -> None:
        import cupy

        self.array_module: Any = cupy
        self._driver = _driver()
        cupy.cuda.Device(index).use()
        cupy.cuda.runtime.free(0)
        size, kind = _granular(count * stride, index), self._driver.CUmemAllocationHandleType
        allocated = _call(self._driver.cuMemCreate(size, _properties(index), 0), "allocate shared memory")
        shareable = kind.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        self.handle = int(_call(self._driver.cuMemExportToShareableHandle(allocated, shareable, 0), "share memory"))
        self.rows, self._release = _map_cuda(allocated, size, index, count, stride)

    def wait(self) -> None:
        """Wait until the device is idle, as far as this process keeps it busy."""
        self.array_module.cuda.Stream.null.synchronize()

    def close(self) -> None:
        """Release the memory."""
        self.wait()
        os.close(self.handle)
        del self.rows
        self._release()


def map_host(handle: int, count: int, stride: int) -> np.ndarray:
    """Return the rows behind a descriptor of `HostMemory`."""
    return np.frombuffer(mmap.mmap(handle, count * stride), np.uint8).reshape(count, stride)


def map_cuda(handle: int, count: int, stride: int, index: int) -> Any:
    """Return the rows behind a descriptor of `CudaMemory`, mapped as long as this process lives."""
    driver = _driver()
    kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    allocated = _call(driver.cuMemImportFromShareableHandle(handle, kind), "open shared memory")
    return _map_cuda(allocated, _granular(count * stride, index), index, count, stride)[0]


def _map_cuda(allocated: Any, size: int, index: int, count: int, stride: int) -> tuple[Any, Callable[[], None]]:
    import cupy

    driver = _driver()
    address = int(_call(driver.cuMemAddressReserve(size, 0, 0, 0), "reserve addresses"))
    _call(driver.cuMemMap(address, size, 0, allocated, 0), "map shared memory")
    _call(driver.cuMemRelease(allocated), "map shared memory")  # the mapping keeps it
    access = driver.CUmemAccessDesc()
    access.location = _properties(index).location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    _call(driver.cuMemSetAccess(address, size, [access], 1), "open shared memory")
    held = cupy.cuda.UnownedMemory(address, size, None, index)
    rows = cupy.ndarray((count, stride), cupy.uint8, memptr=cupy.cuda.MemoryPointer(held, 0))

    def release() -> None:
        driver.cuMemUnmap(address, size)
        driver.cuMemAddressFree(address, size)

    return rows, release


def _properties(index: int) -> Any:
    driver = _driver()
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = index
    return wanted


def _granular(size: int, index: int) -> int:
    """Return the size of an allocation that holds so many bytes."""
    driver = _driver()
    flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    step = int(_call(driver.cuMemGetAllocationGranularity(_properties(index), flag), "ask for shared memory"))
    return -(-size // step) * step


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _call(answer: tuple[Any, ...], what: str) -> Any:
    status = int(answer[0])
    if status == 2:  # CUDA_ERROR_OUT_OF_MEMORY
        raise DeviceMemoryError(what, "CUDA_ERROR_OUT_OF_MEMORY")
    if status:
        raise LaunchError(f"{what}: CUDA error {status}")
    return answer[1] if len(answer) > 1 else None
