"""Check a launch's arguments against the compiled kernel's parameters, before it runs with garbage behind them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuprof.core.errors import LaunchError

POINTER_BYTES = 8
SIZED = {4: "np.int32, np.uint32 or np.float32", 8: "np.int64, np.uint64 or np.float64", 2: "np.int16 or np.float16"}


def check_arguments(driver: Any, function: Any, launch: str, given: Sequence[int | np.generic], text: str) -> None:
    """Raise if the number or sizes of the arguments differ from the kernel's parameters.

    Args:
        launch: the kernel's symbol.
        given: addresses as Python ints, scalars as NumPy scalars.
        text: the kernel's source, for the parameters' names.

    Raises:
        LaunchError: names the parameter, its size, and the argument given.
    """
    sizes = _parameter_bytes(driver, function)
    if sizes is None:
        return
    names = find_parameter_names(text, launch, len(sizes))
    if len(sizes) != len(given):
        listed = f" ({', '.join(names)})" if names else ""
        raise LaunchError(
            f"kernel {launch} takes {len(sizes)} argument{'s' if len(sizes) != 1 else ''}{listed}, the launch gives "
            f"{len(given)}; name one in args= for each parameter"
        )
    for place, (size, value) in enumerate(zip(sizes, given, strict=True)):
        found = POINTER_BYTES if isinstance(value, int) else value.nbytes
        if found == size:
            continue
        which = f"argument {place + 1}" + (f" ({names[place]})" if names else "")
        what = "a buffer's address" if isinstance(value, int) else f"{type(value).__name__}({value})"
        mend = f"give it as {SIZED[size]}, as the kernel declares it" if size in SIZED else "give it as declared"
        raise LaunchError(f"kernel {launch}, {which}: takes {size} bytes, is given {what} of {found}; {mend}")


def find_parameter_names(text: str, kernel: str, count: int) -> tuple[str, ...]:
    """Return the names of a kernel's parameters as its source declares them; empty if unknown."""
    for found in re.finditer(rf"\b{re.escape(kernel)}\s*\(([^()]*)\)\s*\{{", text):
        declared = [part for part in found.group(1).split(",") if part.strip()]
        names = [re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part) for part in declared]
        if len(declared) == count and all(names):
            return tuple(name.group(1) for name in names if name)
    return ()


def count_parameters(driver: Any, function: Any) -> int | None:
    """Return how many parameters a kernel has; None if the driver cannot say."""
    sizes = _parameter_bytes(driver, function)
    return None if sizes is None else len(sizes)


def _parameter_bytes(driver: Any, function: Any) -> list[int] | None:
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
