"""The framework's own kernels on one device: what prepares, frames and checks executions, and is never part of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuprof.backends.cuda.driver import PackedLaunch, call, load_driver
from cuprof.families import Launch

CHECKSUM_THREADS = 512


class DeviceKernels:
    """The kernels of device_kernels.cu.

    Args:
        cupy: the CuPy module, its device current.
        stream: the stream that `checksums` runs on.
        module: the loaded device_kernels.cu.
    """

    def __init__(self, cupy: Any, stream: Any, module: Any) -> None:
        self.cupy, self.stream, self.module = cupy, stream, module
        self._blocks = 4 * int(cupy.cuda.Device().attributes["MultiProcessorCount"])

    def launch(self, name: str, blocks: int, threads: int, arguments: list[Any]) -> PackedLaunch:
        """Return a launch of the kernel `cuprof_NAME`; addresses are integers, other numbers NumPy scalars."""
        symbol = f"cuprof_{name}"
        function = call(load_driver().cuModuleGetFunction(self.module, symbol.encode()), f"find kernel {symbol}")
        return PackedLaunch(Launch(symbol, (blocks,), (threads,)), function, arguments)

    def checksums(self, areas: Sequence[tuple[int, int]]) -> list[int]:
        """Return a hash of the bytes of each area of the device's memory, given as its address and length.

        Any change of one word changes it; changes of several leave it as it was with a probability of 2^-32.
        """
        totals = self.cupy.zeros(len(areas), self.cupy.uint64)
        for place, (address, size) in enumerate(areas):
            arguments = [address, np.uint64(size), totals.data.ptr + place * totals.itemsize]
            self.launch("checksum", self._blocks, CHECKSUM_THREADS, arguments)(self.stream.ptr)
        self.stream.synchronize()
        return [int(total) for total in totals.get()]
