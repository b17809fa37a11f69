"""Hold a launch against the compiled kernel and the device, before it runs with garbage behind its arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cuprof.core.errors import ImpossibleError, LaunchError
from cuprof.core.text import compare
from cuprof.families import Launch

SIZED = {2: "np.int16", 4: "np.int32 or np.float32", 8: "np.int64 or np.float64"}


class Resources(NamedTuple):
    """What a device has for one block, or a compiled kernel needs: threads at most, registers, shared memory.

    A kernel's registers are those of a thread, and its shared memory is the static one.
    """

    threads: int
    registers: int
    shared_bytes: int


def check_launch(launch: Launch, needs: Resources, limits: Resources) -> None:
    """Raise `ImpossibleError` if a launch needs more than the device has, naming the resource."""
    threads = math.prod(int(size) for size in launch.block)
    for excess in (
        compare("threads a block", threads, limits.threads),
        compare("shared memory a block", needs.shared_bytes + launch.shared_bytes, limits.shared_bytes, "bytes"),
        compare("registers a block", needs.registers * threads, limits.registers),
        compare("threads a block for its registers or __launch_bounds__", threads, needs.threads),
    ):
        if excess:
            raise ImpossibleError(f"{excess} of kernel {launch.kernel}")


def check_arguments(sizes: Sequence[int] | None, kernel: str, given: Sequence[int | np.generic]) -> None:
    """Raise `LaunchError` if the number or sizes of the arguments differ from the compiled kernel's parameters.

    Args:
        sizes: of the parameters in bytes; None where they are not known.
        given: addresses as Python ints, scalars as NumPy scalars.
    """
    if sizes is None:
        return
    if len(sizes) != len(given):
        number = f"{len(sizes)} argument{'s' if len(sizes) != 1 else ''}"
        raise LaunchError(
            f"kernel {kernel} takes {number}, the launch gives {len(given)}; name one in args= for each parameter"
        )
    for place, (size, value) in enumerate(zip(sizes, given, strict=True), 1):
        what, found = ("a buffer's address", 8) if isinstance(value, int) else (f"{value!r}", value.nbytes)
        if found != size:
            advice = f"a number of {size} bytes, such as {SIZED[size]}" if size in SIZED else "what the kernel declares"
            raise LaunchError(
                f"kernel {kernel}, argument {place}: takes {size} bytes, is given {what} of {found}; give {advice}"
            )


def read_parameter_sizes(driver: Any, function: Any) -> list[int] | None:
    """Return the size of each of a kernel's parameters; None if the driver cannot say (before CUDA 12.4)."""
    sizes: list[int] = []
    while True:
        try:
            status, _, size = driver.cuFuncGetParamInfo(function, len(sizes))
        except (AttributeError, RuntimeError):
            return None
        if int(status) == 1:  # CUDA_ERROR_INVALID_VALUE: no parameter has this number
            return sizes
        if int(status):
            return None
        sizes.append(int(size))
