"""y = 2·x by Numba, on the current stream and on its own default one."""

import cupy
from numba import cuda


@cuda.jit
def _doubled(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]


@family.library("numba_stream", requires=("cupy", "numba"))
def numba_stream(problem, tune, inputs, outputs):
    x, y, blocks = cuda.as_cuda_array(inputs["x"]), cuda.as_cuda_array(outputs["y"]), -(-problem.n // 256)

    def call():
        stream = cuda.external_stream(cupy.cuda.get_current_stream().ptr)
        _doubled[blocks, 256, stream](x, y)

    return call


@family.library("numba_default_stream", requires=("cupy", "numba"))
def numba_default_stream(problem, tune, inputs, outputs):
    x, y, blocks = cuda.as_cuda_array(inputs["x"]), cuda.as_cuda_array(outputs["y"]), -(-problem.n // 256)
    return lambda: _doubled[blocks, 256](x, y)
