"""The convolution on the host, compiled by Numba: image 3×N×N, filters 3×K×K, output (N-K+1)×(N-K+1), all float32."""

import numba
import numpy as np


def compile_for(function, *arguments):  # type: ignore[no-untyped-def]
    """Compile a function for the types of these arguments without running it."""
    function.compile(tuple(numba.typeof(argument) for argument in arguments))


@numba.njit(inline="always")
def window(image, filters, y, x):  # type: ignore[no-untyped-def]
    """Return one output: the two inner loops, the three channels unrolled."""
    total = np.float32(0)
    for fy in range(filters.shape[1]):
        for fx in range(filters.shape[2]):
            total += image[0, y + fy, x + fx] * filters[0, fy, fx]
            total += image[1, y + fy, x + fx] * filters[1, fy, fx]
            total += image[2, y + fy, x + fx] * filters[2, fy, fx]
    return total


@numba.njit
def convolve(image, filters, output):  # type: ignore[no-untyped-def]
    """Write every output on one core."""
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            output[y, x] = window(image, filters, y, x)


@numba.njit(parallel=True)
def convolve_parallel(image, filters, output):  # type: ignore[no-untyped-def]
    """Write every output on all cores, a row a task."""
    for y in numba.prange(output.shape[0]):
        for x in range(output.shape[1]):
            output[y, x] = window(image, filters, y, x)
