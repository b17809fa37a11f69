"""C = A · B of square matrices, with the tunables of Kernel Tuner's example of this name."""

import numpy as np

import cuprof


def inputs(rng, n=512):
    a, b = rng.standard_normal((2, n, n), np.float32)
    return {"c": np.empty_like(a), "a": a, "b": b, "n": np.int32(n)}


matmul = cuprof.kernel(
    "matmul",
    source="matmul.cu",
    threads=lambda n, tile_size_x, tile_size_y: (n // tile_size_x, n // tile_size_y),
    constraint=lambda block_size_x, block_size_y, tile_size_y: block_size_x == block_size_y * tile_size_y,
    block_size_x=[16, 32, 64],
    block_size_y=[1, 2, 4, 8, 16, 32],
    tile_size_x=[1, 2, 4, 8],
    tile_size_y=[1, 2, 4, 8],
)
cuprof.compare(matmul, inputs=inputs, outputs="c", reference=lambda a, b: a @ b)
