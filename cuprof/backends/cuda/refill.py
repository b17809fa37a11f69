"""Rewrite the arrays before each execution: inputs with one of several contents, outputs and scratch with a byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import call
from cuprof.families import Arrays

THREADS = 512
BLOCKS_A_MULTIPROCESSOR = 4
LEAST_FREE = 0.5
"""Stock contents in at most this share of the free memory."""


class DeviceRefill:
    """Keep the contents of several sets of inputs on the device.

    Args:
        inputs: the arrays that hold contents before executions, by name; they hold those of the first set.
        overwritten: those that hold a byte before each execution.
        sets: contents by input name; as many of them, from the first on, as there is memory for are kept.
        draw_address: where the device finds which set, and which byte.
    """

    def __init__(
        self,
        device: CudaDevice,
        inputs: Mapping[str, Any],
        overwritten: Sequence[Any],
        sets: Sequence[Arrays],
        draw_address: int,
    ) -> None:
        self.device = device
        each = sum(array.nbytes for array in inputs.values())
        free, _ = device.cupy.cuda.runtime.memGetInfo()
        self.count = min(len(sets), int(LEAST_FREE * free) // max(each, 1))
        first = [{name: array.copy() for name, array in inputs.items()}] if self.count else []
        self.contents = first + [
            {name: device.upload(np.asarray(contents[name])) for name in inputs} for contents in sets[1 : self.count]
        ]
        self._tables = {
            name: device.upload(np.array([contents[name].data.ptr for contents in self.contents], np.uint64))
            for name in inputs
        }
        rows = [(array.data.ptr, array.nbytes, 0) for array in overwritten if array.nbytes]
        if self.count:
            rows += [(array.data.ptr, array.nbytes, self._tables[name].data.ptr) for name, array in inputs.items()]
        self._list = device.upload(np.array(rows or [(0, 0, 0)], np.uint64))
        self._launch = device.kernels.launch(
            "refill",
            BLOCKS_A_MULTIPROCESSOR * device.multiprocessors,
            THREADS,
            [self._list.data.ptr, np.uint32(len(rows)), draw_address],
        )

    def replace(self, number: int, inputs: Arrays) -> None:
        """Keep other contents as the set of this number."""
        for name, held in self.contents[number].items():
            self.device.upload(np.asarray(inputs[name]), held)

    def __call__(self, stream: int) -> None:
        """Put the writing on a stream."""
        self._launch(stream)


def copying(device: CudaDevice, copies: Sequence[tuple[int, int, int]]) -> Callable[[int], None]:
    """Return a function that puts copies within device memory on a stream: (target, source, bytes)."""

    def put(stream: int) -> None:
        for target, source, size in copies:
            call(device.driver.cuMemcpyDtoDAsync(target, source, size, stream), "fill a __constant__")

    return put
