"""What a launch asks of a device, held against what that has, before it is launched."""

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
    """What a compiled kernel takes: a thread's registers, a block's static shared memory, threads a block at most."""

    registers: int
    shared_bytes: int
    threads: int


@dataclass(frozen=True)
class Limits:
    """What a device has for one block, shared memory as far as a kernel may ask for it."""

    threads: int
    registers: int
    shared_bytes: int


def check_launch(launch: Launch, needs: Needs, limits: Limits) -> None:
    """Raise `ImpossibleError` where a launch asks for more than the device has, naming what of."""
    threads = math.prod(int(size) for size in launch.block)
    for excess in (
        compare("threads a block", threads, limits.threads),
        compare("shared memory a block", needs.shared_bytes + launch.shared_bytes, limits.shared_bytes, "bytes"),
        compare("registers a block", needs.registers * threads, limits.registers),
        compare("threads a block for its registers or __launch_bounds__", threads, needs.threads),
    ):
        if excess is not None:
            raise ImpossibleError(f"{excess} of kernel {launch.kernel}")
