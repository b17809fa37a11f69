"""Compare outputs with their reference on the device, where a pass over them costs microseconds.

The device only says that everything is right, and by how much. Whatever it cannot pass, or does not know, is fetched
and judged by `cuprof.worker.check.compare`, so there is one definition of wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import PackedLaunch
from cuprof.family import Arrays, Tolerance
from cuprof.records import Check

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
}
"""Types whose every value a double holds exactly; others are compared on the host."""
FOUND = struct.Struct("<QddQdd")
THREADS = 256
BLOCKS_A_MULTIPROCESSOR = 8


class DeviceComparison:
    """Hold one problem's reference on the device.

    Args:
        device: an open device.
        reference: float64 or integers, by output name.
    """

    def __init__(self, device: CudaDevice, reference: Arrays) -> None:
        self.device = device
        self._expected = {name: _on_device(device, array) for name, array in reference.items()}
        self._tolerance: Tolerance | None = None
        self._absolute: dict[str, Any] = {}
        self._found = device.cupy.zeros(FOUND.size, device.cupy.uint8)

    @staticmethod
    def fits(outputs: Mapping[str, Any], reference: Arrays) -> bool:
        """Return whether the device can compare these: known types, and a reference that doubles hold exactly."""
        return set(outputs) == set(reference) and all(
            str(outputs[name].dtype) in C_TYPES and array.dtype.kind in "fiu" and array.size > 0
            for name, array in reference.items()
        )

    def check(self, results: Mapping[str, tuple[int, Any]], tolerance: Tolerance, seed: int) -> Check | None:
        """Return the passed check, or None where some element is not within tolerance.

        Args:
            results: output name → (device address, its `Array`).
            tolerance: what every output is held to.
        """
        self._take(tolerance)
        worst: Check | None = None
        for name, (address, spec) in results.items():
            found = self._compare(name, address, spec.dtype, spec.size)
            if found is None:
                return None
            if worst is None or found.error >= worst.error:
                worst = found
        return None if worst is None else Check(True, worst.error, worst.error_absolute, worst.error_relative, "", seed)

    def _take(self, tolerance: Tolerance) -> None:
        """Copy a tolerance of one bound an element to the device, once for as long as it is asked for."""
        if tolerance is self._tolerance:
            return
        self._tolerance = None  # should the device's memory not suffice, none is known rather than the last one's
        self._absolute = {
            name: _on_device(self.device, np.broadcast_to(tolerance.absolute, array.shape))
            for name, array in self._expected.items()
            if np.ndim(tolerance.absolute)
        }
        self._tolerance = tolerance

    def _compare(self, name: str, address: int, dtype: str, count: int) -> Check | None:
        device, tolerance = self.device, self._tolerance
        assert tolerance is not None
        absolute = self._absolute.get(name)
        self._found.fill(0)
        arguments = [
            address,
            self._expected[name].data.ptr,
            absolute.data.ptr if absolute is not None else 0,
            np.float64(0.0 if absolute is not None else tolerance.absolute),
            np.float64(tolerance.relative),
            np.uint64(count),
            self._found.data.ptr,
        ]
        blocks = max(1, min(-(-count // THREADS), BLOCKS_A_MULTIPROCESSOR * device.multiprocessors))
        kernel = device.comparison_kernel(C_TYPES[dtype])
        PackedLaunch("cuprof_compare", kernel, (blocks,), (THREADS,), arguments)(device.stream.ptr)
        device.stream.synchronize()
        failing, error, distance, examined, squared_distance, squared_expected = FOUND.unpack(
            self._found.get().tobytes()
        )
        finite = math.isfinite(squared_distance) and math.isfinite(squared_expected)
        if failing or examined != count or not finite:
            return None
        if squared_expected:
            relative = math.sqrt(squared_distance / squared_expected)
        else:
            relative = math.inf if squared_distance else 0.0
        return Check(True, error, distance, relative)


def _on_device(device: CudaDevice, array: np.ndarray) -> Any:
    return device.upload(np.ascontiguousarray(array, dtype=np.float64))
