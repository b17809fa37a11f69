"""The convolution on the host, compiled by Numba: image C×H×W, filters M×R×S×C, output M×H×W, all float32."""

from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np


def prepare(
    products: Any, filter_side: int, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Callable[[], None]:
    """Compile the two serial stages for these arrays and return the call that runs them.

    Args:
        products: the first stage, `scalar_prods` or `scalar_prods_by_rows`.
    """
    image, filters, output = inputs["input"], inputs["filters"], outputs["output"]
    count, side, _ = output.shape
    partial = np.empty((count, filter_side, filter_side, side, side), np.float32)
    compile_for(products, image, filters, partial)
    compile_for(sum_taps, partial, output)

    def run() -> None:
        products(image, filters, partial)
        sum_taps(partial, output)

    return run


def compile_for(function, *arguments):  # type: ignore[no-untyped-def]
    """Compile a function for the types of these arguments without running it."""
    function.compile(tuple(numba.typeof(argument) for argument in arguments))


@numba.njit
def scalar_prods(image, filters, partial):  # type: ignore[no-untyped-def]
    """Write the product sum over the channels of each filter, tap and pixel: partial is M×R×S×H×W.

    The loops are in the published order: tap, filter, row, column, and the channels of a pixel innermost, which lie an
    image apart.
    """
    count, filter_side, _, channels = filters.shape
    side = image.shape[1]
    reach = (filter_side - 1) // 2
    for fy in range(filter_side):
        for fx in range(filter_side):
            for m in range(count):
                for y in range(side):
                    for x in range(side):
                        row, column = y + fy - reach, x + fx - reach
                        total = np.float32(0)
                        if 0 <= row < side and 0 <= column < side:
                            for c in range(channels):
                                total += image[c, row, column] * filters[m, fy, fx, c]
                        partial[m, fy, fx, y, x] = total


@numba.njit
def scalar_prods_by_rows(image, filters, partial):  # type: ignore[no-untyped-def]
    """Write the product sum over the channels of each filter, tap and pixel: partial is M×R×S×H×W.

    A channel at a time, the pixels of a row innermost: they lie side by side, the channels of a pixel an image apart.
    """
    count, filter_side, _, channels = filters.shape
    side = image.shape[1]
    reach = (filter_side - 1) // 2
    partial[:] = 0
    for m in range(count):
        for fy in range(filter_side):
            for fx in range(filter_side):
                dy, dx = fy - reach, fx - reach
                left, right = max(0, -dx), min(side, side - dx)
                for c in range(channels):
                    weight = filters[m, fy, fx, c]
                    for y in range(max(0, -dy), min(side, side - dy)):
                        sums, pixels = partial[m, fy, fx, y, left:right], image[c, y + dy, left + dx : right + dx]
                        for x in range(right - left):
                            sums[x] += weight * pixels[x]


@numba.njit
def sum_taps(partial, output):  # type: ignore[no-untyped-def]
    """Add the partial results of each pixel."""
    count, filter_side, _, side, _ = partial.shape
    for m in range(count):
        for y in range(side):
            for x in range(side):
                total = np.float32(0)
                for fy in range(filter_side):
                    for fx in range(filter_side):
                        total += partial[m, fy, fx, y, x]
                output[m, y, x] = total


@numba.njit(parallel=True)
def convolve(image, filters, output):  # type: ignore[no-untyped-def]
    """Write the convolution: a filter a task, the pixels of a row innermost so that they vectorise."""
    count, filter_side, _, channels = filters.shape
    side = image.shape[1]
    reach = (filter_side - 1) // 2
    for m in numba.prange(count):
        output[m] = 0
        for fy in range(filter_side):
            for fx in range(filter_side):
                dy, dx = fy - reach, fx - reach
                left, right = max(0, -dx), min(side, side - dx)
                for c in range(channels):
                    weight = filters[m, fy, fx, c]
                    for y in range(max(0, -dy), min(side, side - dy)):
                        sums, pixels = output[m, y, left:right], image[c, y + dy, left + dx : right + dx]
                        for x in range(right - left):
                            sums[x] += weight * pixels[x]
