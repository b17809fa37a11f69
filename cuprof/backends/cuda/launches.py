"""Hold a launch against the compiled kernel and the device, before it runs with garbage behind its arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cuprof.backends.declared import read_parameters
from cuprof.core.errors import ImpossibleError, LaunchError
from cuprof.core.text import compare
from cuprof.families import Launch

POINTER_BYTES = 8
SIZED = {4: "np.int32, np.uint32 or np.float32", 8: "np.int64, np.uint64 or np.float64", 2: "np.int16 or np.float16"}


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
        if excess is not None:
            raise ImpossibleError(f"{excess} of kernel {launch.kernel}")


def check_arguments(sizes: Sequence[int] | None, kernel: str, given: Sequence[int | np.generic], text: str) -> None:
    """Raise if the number or sizes of the arguments differ from the kernel's parameters.

    Args:
        sizes: of the parameters in bytes; None where they are not known.
        given: addresses as Python ints, scalars as NumPy scalars.
        text: the kernel's source, for the parameters' names.

    Raises:
        LaunchError: names the parameter, its size, and the argument given.
    """
    if sizes is None:
        return
    declared = read_parameters(text, kernel.partition("<")[0].rpartition("::")[2]) or ()
    names = [each.name or each.text for each in declared] if len(declared) == len(sizes) else []
    if len(sizes) != len(given):
        listed = f" ({', '.join(names)})" if names else ""
        raise LaunchError(
            f"kernel {kernel} takes {len(sizes)} argument{'s' if len(sizes) != 1 else ''}{listed}, the launch gives "
            f"{len(given)}; name one in args= for each parameter"
        )
    for place, (size, value) in enumerate(zip(sizes, given, strict=True)):
        found = POINTER_BYTES if isinstance(value, int) else value.nbytes
        if found != size:
            which = f"argument {place + 1}" + (f" ({names[place]})" if names else "")
            what = "a buffer's address" if isinstance(value, int) else f"{type(value).__name__}({value})"
            mend = f"{SIZED[size]}, as the kernel declares it" if size in SIZED else "declared"
            raise LaunchError(
                f"kernel {kernel}, {which}: takes {size} bytes, is given {what} of {found}; give it as {mend}"
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
