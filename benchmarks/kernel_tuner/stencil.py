"""The mean of each point and its four neighbours, with the tunables of Kernel Tuner's example of this name."""

import numpy as np

import cuprof


def inputs(rng, width=4096, height=2048):
    old = rng.standard_normal((height, width), np.float32)
    return {"new": np.empty_like(old), "old": old, "width": np.int32(width), "height": np.int32(height)}


def reference(old):
    new = old.copy()
    new[1:-1, 1:-1] += old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    new[1:-1, 1:-1] /= 5
    return new


stencil = cuprof.kernel(
    "stencil",
    source="stencil.cu",
    threads=("width", "height"),
    block_size_x=range(32, 257, 32),
    block_size_y=[1, 2, 4, 8, 16, 32],
)
cuprof.compare(stencil, inputs=inputs, outputs="new", reference=reference)
