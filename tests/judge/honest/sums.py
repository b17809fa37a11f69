"""The sum of x by CuPy and PyTorch."""

import cupy
import torch

from cuprof.backends.torch_bridge import as_tensor, on_current_stream

_summed = cupy.ReductionKernel("float32 x", "float32 y", "x", "a + b", "y = a", "0", "summed")
_atomic = cupy.RawKernel(
    """extern "C" __global__ void summed(const float* x, float* y, int n) {
    float own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) own += x[i];
    for (int step = 16; step; step /= 2) own += __shfl_down_sync(0xffffffff, own, step);
    if (threadIdx.x % 32 == 0) atomicAdd(y, own);
}""",
    "summed",
)


@family.library("sum_out", requires="cupy")
def sum_out(problem, tune, inputs, outputs):
    return lambda: cupy.sum(inputs["x"], out=outputs["sum"].reshape(()))


@family.library("sum_copied", requires="cupy")
def sum_copied(problem, tune, inputs, outputs):
    def call():
        outputs["sum"][...] = inputs["x"].sum()

    return call


@family.library("reduction_kernel", requires="cupy")
def reduction_kernel(problem, tune, inputs, outputs):
    return lambda: _summed(inputs["x"], outputs["sum"].reshape(()))


@family.library("atomic", requires="cupy")
def atomic(problem, tune, inputs, outputs):
    def call():
        outputs["sum"].fill(0)  # 512 warps add in turn: the family's tolerance is for chains of at most 1024
        _atomic((64,), (256,), (inputs["x"], outputs["sum"], cupy.int32(problem.n)))

    return call


@family.library("two_passes", requires="cupy")
def two_passes(problem, tune, inputs, outputs):
    parts = cupy.empty(1024, cupy.float32)

    def call():
        cupy.sum(inputs["x"].reshape(1024, -1), axis=1, out=parts)
        cupy.sum(parts, out=outputs["sum"].reshape(()))

    return call


@family.library("dot", requires="cupy")
def dot(problem, tune, inputs, outputs):
    ones = cupy.ones(problem.n, cupy.float32)
    return lambda: cupy.dot(inputs["x"], ones, out=outputs["sum"].reshape(()))


@family.library("torch_sum", requires="torch")
def torch_sum(problem, tune, inputs, outputs):
    x, y = as_tensor(inputs["x"]), as_tensor(outputs["sum"])

    def call():
        with on_current_stream():
            torch.sum(x, dim=0, keepdim=True, out=y)

    return call


@family.library("torch_two_passes", requires="torch")
def torch_two_passes(problem, tune, inputs, outputs):
    x, y = as_tensor(inputs["x"]), as_tensor(outputs["sum"])

    def call():
        with on_current_stream():
            y.copy_(x.view(1024, -1).sum(1).sum().view(1))

    return call


@family.library("torch_compiled_sum", requires="torch")
def torch_compiled_sum(problem, tune, inputs, outputs):
    x, y = as_tensor(inputs["x"]), as_tensor(outputs["sum"])
    summed = torch.compile(lambda x: x.sum().view(1))

    def call():
        with on_current_stream():
            y.copy_(summed(x))

    return call
