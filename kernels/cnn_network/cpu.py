"""The layers on the host as plain loops, compiled by Numba; images are channels × side × side, all float32."""

from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np


def prepare(layer: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Callable[[], object]:
    """Compile a layer's function for these arrays and return the call."""
    function = {"conv": convolve, "pool": pool, "dense": connect}[layer]
    names = [name for name in ("input", "weights", "bias") if name in inputs]
    arguments = (*(inputs[name] for name in names), outputs["output"])
    function.compile(tuple(numba.typeof(argument) for argument in arguments))
    return lambda: function(*arguments)


@numba.njit(nogil=True)
def convolve(image, filters, bias, output):  # type: ignore[no-untyped-def]
    """Write 3×3 convolution, bias and ReLU; taps in the padding are left out."""
    features, side, _ = output.shape
    for feature in range(features):
        for y in range(side):
            for x in range(side):
                total = bias[feature]
                for channel in range(image.shape[0]):
                    for dy in range(max(0, 1 - y), min(3, side + 1 - y)):
                        for dx in range(max(0, 1 - x), min(3, side + 1 - x)):
                            total += image[channel, y + dy - 1, x + dx - 1] * filters[feature, channel, dy, dx]
                output[feature, y, x] = max(total, np.float32(0))


@numba.njit(nogil=True)
def pool(image, output):  # type: ignore[no-untyped-def]
    """Write the largest of each 2×2 pixels."""
    channels, side, _ = output.shape
    for channel in range(channels):
        for y in range(side):
            for x in range(side):
                above = max(image[channel, 2 * y, 2 * x], image[channel, 2 * y, 2 * x + 1])
                below = max(image[channel, 2 * y + 1, 2 * x], image[channel, 2 * y + 1, 2 * x + 1])
                output[channel, y, x] = max(above, below)


@numba.njit(nogil=True)
def connect(vector, weights, bias, output):  # type: ignore[no-untyped-def]
    """Write matrix times vector, bias and ReLU."""
    for feature in range(output.shape[0]):
        total = bias[feature]
        for channel in range(vector.shape[0]):
            total += weights[feature, channel] * vector[channel]
        output[feature] = max(total, np.float32(0))
