"""Host memory that a problem's inputs are copied from, and its outputs to, when total time is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuprof.backends.cuda.device import CudaDevice
from cuprof.families import Array, Arrays

Copies = list[tuple[int, int, int]]
"""Target address, source address, bytes."""


class Transfers:
    """Keep host copies of sets of inputs, and room for the outputs; made at first use.

    Args:
        pinned: page-locked memory, or what NumPy allocates.
    """

    def __init__(self, device: CudaDevice, pinned: bool) -> None:
        self.device, self.pinned = device, pinned
        self._uploaded: dict[int, dict[str, np.ndarray]] = {}
        self._downloaded: dict[tuple[str, Array], np.ndarray] = {}

    def uploads(self, number: int, contents: Arrays, inputs: Mapping[str, Any]) -> Copies:
        """Return the copies of a set's contents to the device's arrays."""
        if number not in self._uploaded:
            self._uploaded[number] = {name: self._copy(array) for name, array in contents.items()}
        host = self._uploaded[number]
        return [(inputs[name].data.ptr, array.ctypes.data, array.nbytes) for name, array in host.items()]

    def downloads(self, results: Mapping[str, tuple[int, Array]]) -> Copies:
        """Return the copies of results, each at its address, to the host."""
        copies = []
        for name, (address, spec) in results.items():
            if (name, spec) not in self._downloaded:
                self._downloaded[name, spec] = self._allocate(spec.shape, spec.type)
            host = self._downloaded[name, spec]
            copies.append((host.ctypes.data, address, host.nbytes))
        return copies

    def forget(self, number: int) -> None:
        """Let go of a set, whose contents have been replaced."""
        self._uploaded.pop(number, None)

    def _copy(self, array: np.ndarray) -> np.ndarray:
        copy = self._allocate(array.shape, array.dtype)
        copy[...] = array
        return copy

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if not self.pinned:
            return np.empty(shape, dtype)
        count = int(np.prod(shape, dtype=np.int64))
        memory = self.device.cupy.cuda.alloc_pinned_memory(max(count * dtype.itemsize, 1))
        return np.frombuffer(memory, dtype, count).reshape(shape)
