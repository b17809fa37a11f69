"""The loop of the CPU variants, compiled by Numba."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def compile_sum(dtype: str, *, parallel: bool) -> Callable[[np.ndarray, np.ndarray], None]:
    """Return the compiled function (x, total) that leaves the sum of x in total[0].

    It adds up in float64 for float32 and in int64 for int32, in index order on one core, or a contiguous share on each
    core. Nothing is cached on disk: the folder may be read-only, and compiling is not timed.
    """
    from numba import njit, prange

    zero: np.generic = np.float64(0) if dtype == "float32" else np.int64(0)

    @njit(parallel=parallel, nogil=True)  # type: ignore[untyped-decorator]
    def add_up(x: np.ndarray, total: np.ndarray) -> None:
        accumulator = zero
        for i in prange(x.size):
            accumulator += x[i]
        total[0] = accumulator

    add_up(np.zeros(1, dtype), np.zeros(1, dtype))  # Numba compiles at the first call
    return add_up  # type: ignore[no-any-return]
