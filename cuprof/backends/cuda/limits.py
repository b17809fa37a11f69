"""Check a launch's needs against the device's limits, before the launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuprof.core.errors import ImpossibleError
from cuprof.core.text import compare
from cuprof.families import Launch

TOO_MANY = frozenset({701, 720, 912})
"""CUresult codes for a launch too large for the device: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
_COOPERATIVE_LAUNCH_TOO_LARGE and _INVALID_CLUSTER_SIZE."""
SAID = ("OutOfResources", "LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch")
"""How errors of Triton, Numba and PyTorch name the first of them."""


@dataclass(frozen=True)
class Needs:
    """A compiled kernel's needs: registers per thread, static shared memory per block, most threads per block."""

    registers: int
    shared_bytes: int
    threads: int


@dataclass(frozen=True)
class Limits:
    """A device's limits for one block, with the most shared memory that a kernel may request."""

    threads: int
    registers: int
    shared_bytes: int


def check_launch(launch: Launch, needs: Needs, limits: Limits) -> None:
    """Raise `ImpossibleError` if a launch needs more than the device has, naming the resource."""
    threads = math.prod(int(size) for size in launch.block)
    for excess in (
        compare("threads a block", threads, limits.threads),
        compare("shared memory a block", needs.shared_bytes + launch.shared_bytes, limits.shared_bytes, "bytes"),
        compare("registers a block", needs.registers * threads, limits.registers),
        compare("threads a block for its registers or __launch_bounds__", threads, needs.threads),
    ):
        if excess is not None:
            raise ImpossibleError(f"{excess} of kernel {launch.kernel}")
