"""Guard bytes around arrays in device memory, which show when a kernel has written outside.

The driver rounds allocations up, and arrays of one problem lie side by side, so a kernel that writes past an end raises
no error. A block checks one guard, all guards with one launch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuprof.backends.cuda.device import CudaDevice, as_bits
from cuprof.backends.cuda.driver import call
from cuprof.backends.guarded import GUARD_BYTES, PATTERN

THREADS = 256


class DeviceGuards:
    """Allocate arrays between guards of `GUARD_BYTES`, and watch the guards."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._pattern = device.upload(PATTERN)
        self._labels: list[str] = []
        self._addresses: list[int] = []
        self._table: tuple[Any, Any] | None = None

    def allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype | str) -> Any:
        """Return a new CuPy array, C-contiguous, elements undefined, aligned as CuPy's own arrays are; see `as_bits`.

        Args:
            label: its name in `find_damaged` ("output y").

        Raises:
            cupy.cuda.memory.OutOfMemoryError: the device lacks the memory.
        """
        cupy, like = self.device.cupy, as_bits(np.empty((0, *shape), dtype))
        shape, kind = like.shape[1:], like.dtype
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        memory = cupy.empty(size + 2 * GUARD_BYTES, cupy.uint8)
        self._labels.append(label)
        self._addresses += [memory.data.ptr, memory.data.ptr + GUARD_BYTES + size]
        self._table = None
        self._write(self._addresses[-2:])
        return cupy.ndarray(shape, kind, memptr=memory.data + GUARD_BYTES)

    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of the arrays with damage next to them."""
        count = len(self._addresses)
        if self._table is None:
            self._table = (
                self.device.upload(np.array(self._addresses, np.uint64)),
                self.device.cupy.empty(count, self.device.cupy.uint32),
            )
        addresses, changed = self._table
        arguments = [addresses.data.ptr, self._pattern.data.ptr, np.uint32(GUARD_BYTES), changed.data.ptr]
        self.device.kernels.launch("guards", count, THREADS, arguments)(self.device.stream.ptr)
        self.device.stream.synchronize()
        found = np.empty(count, np.uint32)
        call(self.device.driver.cuMemcpyDtoH(found.ctypes.data, changed.data.ptr, found.nbytes), "read the guards")
        return tuple(label for label, sides in zip(self._labels, found.reshape(-1, 2), strict=True) if sides.any())

    def mend(self) -> None:
        """Rewrite all guards."""
        self._write(self._addresses)

    def _write(self, addresses: list[int]) -> None:
        copy = self.device.driver.cuMemcpyDtoDAsync
        for address in addresses:
            call(copy(address, self._pattern.data.ptr, GUARD_BYTES, self.device.stream.ptr), "write a guard")
