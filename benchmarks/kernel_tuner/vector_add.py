"""c = a + b, with the tunables of Kernel Tuner's example of this name."""

import numpy as np

import cuprof

SOURCE = """
extern "C" __global__ void vector_add(float *c, const float *a, const float *b, int n)
{
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


def inputs(rng, n=10_000_000):
    a, b = rng.standard_normal((2, n), np.float32)
    return {"c": np.empty(n, np.float32), "a": a, "b": b, "n": np.int32(n)}


add = cuprof.kernel("vector_add", source=SOURCE, threads="n", block_size_x=[128 + 64 * i for i in range(15)])
cuprof.compare(add, inputs=inputs, outputs="c", reference=lambda a, b: a + b)
