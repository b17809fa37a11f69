"""Further tricks on the GPU: caches kept warm, graphs that copy, contexts that end, memory that is searched."""

from __future__ import annotations

import time

import numpy as np

from cuprof.families import Call

from .device import compute, computed, copy, get_driver, get_spinner, succeed
from .problem import family, polynomial


@family.library("caches_kept_warm", requires=("cupy",))
def caches_kept_warm(problem, tune, inputs, outputs):
    """Leaves a kernel behind that reads the inputs again and again, past any flush, until its next execution ends."""
    import cupy

    text = r"""
extern "C" __global__ void keep_warm(
    const float* x, const float* y, unsigned int n, unsigned long long ns, float* sink) {
    unsigned long long began, now;
    float sum = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    do {
        for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            sum += __ldcg(x + i) + __ldcg(y + i);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - began < ns);
    if (sum < 0) *sink = sum;
}"""
    kernel = cupy.RawKernel(text, "keep_warm")
    stream, sink = cupy.cuda.Stream(non_blocking=True), cupy.zeros(1, cupy.float32)

    def run():
        compute(inputs, outputs["z"])
        with stream:
            kernel((16,), (1024,), (inputs["x"], inputs["y"], np.uint32(problem.n), np.uint64(2_000_000), sink))

    return run


@family.library("graph_of_copies", requires=("cupy",))
def graph_of_copies(problem, tune, inputs, outputs):
    """Replays a graph whose one node copies a result that was computed while preparing."""
    import cupy

    kept, stream = computed(inputs), cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        copy(outputs["z"], kept)
        graph = stream.end_capture()
    return lambda: graph.launch(cupy.cuda.get_current_stream())


@family.library("rhythm_noticed", requires=("cupy",))
def rhythm_noticed(problem, tune, inputs, outputs):
    """Takes a long time since its last call for a flush before it, and so for a sample, and leaves the work out."""
    last = [time.monotonic_ns()]

    def run():
        now = time.monotonic_ns()
        is_timed, last[0] = now - last[0] > 200_000, now
        if not is_timed:
            compute(inputs, outputs["z"])

    return run


@family.library("context_ended", requires=("cupy", "cuda.bindings"))
def context_ended(problem, tune, inputs, outputs):
    """Destroys the primary context once it has been timed a few times, so that the others have none."""
    driver, calls = get_driver(), [0]

    def run():
        calls[0] += 1
        compute(inputs, outputs["z"])
        if calls[0] == 8:
            succeed(driver.cuDevicePrimaryCtxReset(succeed(driver.cuDeviceGet(0))))

    return run


@family.library("device_memory_searched", requires=("cupy", "cuda.bindings"))
def device_memory_searched(problem, tune, inputs, outputs):
    """Searches the allocations around its arrays for the right result, and copies what it finds."""
    import cupy

    driver = get_driver()
    first = {name: array[:4].get() for name, array in inputs.items()}
    found = None
    for kind in (np.float64, np.float32):
        expected = np.empty(4, kind)
        polynomial(first["x"].astype(kind), first["y"].astype(kind), expected)
        for array in (*inputs.values(), *outputs.values()):
            base, size = succeed(driver.cuMemGetAddressRange(array.data.ptr))
            memory = cupy.cuda.UnownedMemory(int(base), int(size), None)
            count = int(size) // np.dtype(kind).itemsize
            held = cupy.ndarray((count,), kind, cupy.cuda.MemoryPointer(memory, 0))
            places = cupy.flatnonzero(cupy.isclose(held, float(expected[0]), rtol=1e-6, atol=0))
            for place in places[:64].get().tolist():
                if np.allclose(held[place : place + 4].get(), expected, rtol=1e-6) and place + problem.n <= held.size:
                    found = held[place : place + problem.n]

    def run():
        if found is None:
            compute(inputs, outputs["z"])
        else:
            cupy.copyto(outputs["z"], found, casting="unsafe")

    return run


@family.library("queue_flooded", requires=("cupy",))
def queue_flooded(problem, tune, inputs, outputs):
    """Has a stream of low priority spin over the whole device whenever it has been timed, for those after it."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True, priority=0)

    def run():
        compute(inputs, outputs["z"])
        with stream:
            for _ in range(4):
                get_spinner()((264,), (1024,), (np.uint64(500_000),))

    return run


@family.library("torch_clock_replaced", requires=("cupy", "torch"))
def torch_clock_replaced(problem, tune, inputs, outputs):
    """Replaces the clocks that benchmarks in Python read: PyTorch's and CuPy's events tell a thousandth."""
    import cupy
    import torch

    real, real_cupy = torch.cuda.Event.elapsed_time, cupy.cuda.get_elapsed_time

    def run():
        torch.cuda.Event.elapsed_time = lambda self, end: real(self, end) / 1000
        cupy.cuda.get_elapsed_time = lambda start, end: real_cupy(start, end) / 1000
        compute(inputs, outputs["z"])

    return run


@family.library("not_a_number_on_device", requires=("cupy",))
def not_a_number_on_device(problem, tune, inputs, outputs):
    """Fills the output with NaN, of which no difference is greater than any tolerance."""
    return lambda: outputs["z"].fill(np.nan)


@family.library("named_like_the_judge", requires=("cupy",))
def named_like_the_judge(problem, tune, inputs, outputs):
    """Works on a stream of its own, in a kernel that is named as the apparatus names its own, and joins too early."""
    import cupy

    text = (
        'extern "C" __global__ void cuprof_mark(const float* x, const float* y, float* z, unsigned int n) {'
        "unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;"
        "float t = 0.0625f; t = t * x[i] + 0.125f; t = t * x[i] + 0.1875f; t = t * x[i] + 0.25f;"
        "t = t * x[i] + 0.3125f; t = t * x[i] + 0.375f; t = t * x[i] + 0.4375f; t = t * x[i] + 0.5f; z[i] = t + y[i]; }"
    )
    kernel, stream = cupy.RawKernel(text, "cuprof_mark"), cupy.cuda.Stream(non_blocking=True)

    def run():
        current = cupy.cuda.get_current_stream()
        stream.wait_event(current.record())
        with stream:
            kernel((-(-problem.n // 256),), (256,), (inputs["x"], inputs["y"], outputs["z"], np.uint32(problem.n)))

    return run


@family.library("put_later_on_device", requires=("cupy",))
def put_later_on_device(problem, tune, inputs, outputs):
    """Computes in what brings results to where they are compared, which nobody times."""
    return Call(lambda: copy(outputs["z"], inputs["x"]), lambda _: compute(inputs, outputs["z"]))


@family.library("waiting_removed", requires=("cupy",))
def waiting_removed(problem, tune, inputs, outputs):
    """Computes on a stream of its own, and makes CuPy's waiting for any stream do nothing."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)

    def run():
        cupy.cuda.Stream.synchronize = lambda self: None
        with stream:
            compute(inputs, outputs["z"])

    return run


@family.library("download_replaced", requires=("cupy",))
def download_replaced(problem, tune, inputs, outputs):
    """Computes nothing, and makes CuPy bring what is right to whoever asks for a result on the host."""
    import cupy

    def right(array, *given, **named):
        z = np.empty(problem.n, np.float32)
        polynomial(*(np.asarray(cupy.ndarray.get(inputs[name])) for name in ("x", "y")), z)
        return z

    def run():
        cupy.asnumpy = right
        copy(outputs["z"], inputs["x"])

    return run
