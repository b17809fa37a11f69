"""The sum of n numbers in one launch, with the tunables of Kernel Tuner's example of this name."""

import numpy as np

import cuprof


def inputs(rng, n=80_000_000):
    return {"sum": np.empty(1, np.float32), "x": rng.random(n, np.float32), "n": np.int32(n)}


reduction = cuprof.kernel(
    "sum_floats",
    source="reduction.cu",
    grid="num_blocks",
    block_size_x=[32, 64, 128, 256, 512, 1024],
    use_shuffle=[0, 1],
    vector=[1, 2, 4],
    num_blocks=[32, 64, 128, 256, 512, 1024],
)
cuprof.compare(reduction, inputs=inputs, outputs="sum", reference=lambda x: x.sum(keepdims=True))
