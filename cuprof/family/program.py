"""What a CUDA C++ or OpenCL C variant builds and launches, as plain data.

A `Program` names no device, so it can be planned, hashed, compiled and compared on a machine without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Argument: TypeAlias = "str | int | float | np.generic"
"""A kernel argument: a buffer's name, or a scalar (a Python int becomes int32, a Python float float32)."""


@dataclass(frozen=True)
class Array:
    """Describe one buffer: its shape in elements and its NumPy dtype name."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(map(int, self.shape))

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        import numpy as np

        return self.size * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Launch:
    """Launch one kernel.

    Args:
        kernel: the kernel's symbol; in CUDA C++ it is declared `extern "C" __global__`.
        grid: blocks (OpenCL: work-groups) in x, y, z.
        block: threads a block (OpenCL: work-items a group) in x, y, z.
        args: in the order of the kernel's parameters.
        shared_bytes: dynamic shared memory a block, in bytes (CUDA).
        cooperative: launch so that all blocks are on the device together and may wait for one another by
            `cooperative_groups::this_grid().sync()` (CUDA); a grid that does not fit is refused by the driver.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Argument, ...]
    shared_bytes: int = 0
    cooperative: bool = False


@dataclass(frozen=True)
class Fill:
    """Set every byte of a buffer to `value` (0…255); part of the timed region, in the order given."""

    buffer: str
    value: int = 0


@dataclass(frozen=True)
class Program:
    """Describe a variant at one problem and one choice of tunables.

    Args:
        steps: launches and fills in stream order; they read inputs and write outputs and scratch, and must give
            the same result however often they are repeated.
        defines: preprocessor macros, the compile-time parameters.
        options: further compiler options.
        scratch: device buffers beside the family's inputs and outputs, contents undefined before the first step.
        results: for an output that does not end in the buffer of its own name: output name → buffer name.
            The buffer may be longer than the output; its first elements count.
        constants: `__constant__` symbol → input buffer copied into it once, before anything is timed (CUDA).
    """

    steps: tuple[Launch | Fill, ...]
    defines: Mapping[str, str | int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    scratch: Mapping[str, Array] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Return the kernel launches alone."""
        return tuple(step for step in self.steps if isinstance(step, Launch))


def as_scalar(value: int | float | np.generic) -> np.generic:
    """Return a kernel's scalar argument: Python ints as int32, Python floats as float32, NumPy scalars as they are."""
    import numpy as np

    if isinstance(value, np.generic):
        return value
    return np.int32(value) if isinstance(value, int) else np.float32(value)
