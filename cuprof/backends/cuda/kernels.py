"""The framework's own kernels on one device: what prepares, frames and checks executions, and is never part of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cuprof.backends.cuda.driver import PackedLaunch, call, load_driver
from cuprof.families import Launch

CHECKSUM_BLOCKS, CHECKSUM_THREADS = 4, 512
"""Blocks a multiprocessor, and threads a block."""
Parts = tuple[tuple[int, int], ...]
"""Parts of the device's memory: address and bytes of each."""


class DeviceKernels:
    """The kernels of device_kernels.cu.

    Args:
        cupy: the CuPy module, its device current.
        stream: the stream that `checksums` runs on.
        module: the loaded device_kernels.cu.
    """

    def __init__(self, cupy: Any, stream: Any, module: Any) -> None:
        self.cupy, self.stream, self.module = cupy, stream, module
        self._multiprocessors = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        self._prepare_checksums = lru_cache(16)(self._make_checksums)

    def launch(self, name: str, blocks: int, threads: int, arguments: list[Any], rows: int = 1) -> PackedLaunch:
        """Return a launch of the kernel `cuprof_NAME`; addresses are integers, other numbers NumPy scalars.

        Args:
            rows: of the grid, of `blocks` each.
        """
        symbol = f"cuprof_{name}"
        function = call(load_driver().cuModuleGetFunction(self.module, symbol.encode()), f"find kernel {symbol}")
        return PackedLaunch(Launch(symbol, (blocks, rows), (threads,)), function, arguments)

    def checksums(self, parts: Parts) -> list[int]:
        """Return a hash of each part of the device's memory.

        Any change of one word changes it; changes of several leave it as it was with a probability of 2^-32.
        """
        if not parts:
            return []
        launch, sums = self._prepare_checksums(parts)
        sums.fill(0)
        launch(self.stream.ptr)
        return [int(total) for total in sums.get()]

    def _make_checksums(self, parts: Parts) -> tuple[PackedLaunch, Any]:
        table = self.cupy.asarray(np.array(parts, np.uint64))
        sums = self.cupy.empty(len(parts), self.cupy.uint64)
        blocks = CHECKSUM_BLOCKS * self._multiprocessors
        launch = self.launch("checksum", blocks, CHECKSUM_THREADS, [table.data.ptr, sums.data.ptr], len(parts))
        launch.keep([table])
        return launch, sums
