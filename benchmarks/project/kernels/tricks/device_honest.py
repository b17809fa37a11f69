"""Honest variants on the GPU that launch by themselves, each sharing a habit with some trick."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache, lru_cache
from itertools import pairwise

from .device import compute, copy, get_driver, make_kernel, succeed
from .problem import COEFFICIENTS, family

PARTS = 2


@family.library("cupy_elementwise", requires=("cupy",))
def cupy_elementwise(problem, tune, inputs, outputs):
    """CuPy's ElementwiseKernel on the current stream."""
    return lambda: compute(inputs, outputs["z"])


@family.library("default_stream", requires=("cupy",))
def default_stream(problem, tune, inputs, outputs):
    """CuPy on the default stream, as code does that knows nothing of streams."""
    import cupy

    def run():
        with cupy.cuda.Stream.null:
            compute(inputs, outputs["z"])

    return run


@family.library("streams_joined", requires=("cupy",))
def streams_joined(problem, tune, inputs, outputs):
    """Forks to two streams of its own and joins them with events."""
    import cupy

    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(PARTS)]
    parts = cut(problem.n)

    def run():
        current = cupy.cuda.get_current_stream()
        forked = current.record()
        for stream, part in zip(streams, parts, strict=True):
            stream.wait_event(forked)
            with stream:
                make_kernel()(inputs["x"][part], inputs["y"][part], outputs["z"][part])
                current.wait_event(stream.record())

    return run


@family.library("own_blocking_stream", requires=("cupy",))
def own_blocking_stream(problem, tune, inputs, outputs):
    """Works on a stream of its own that was made as most are: it waits for the default stream, and is waited for."""
    import cupy

    stream = cupy.cuda.Stream()

    def run():
        with stream:
            compute(inputs, outputs["z"])

    return run


@family.library("prefetched_beside", requires=("cupy",))
def prefetched_beside(problem, tune, inputs, outputs):
    """Fills a workspace on a stream of its own beside the main work, and joins it at the end."""
    import cupy

    stream, workspace = cupy.cuda.Stream(non_blocking=True), cupy.empty(1024, cupy.float32)

    def run():
        current = cupy.cuda.get_current_stream()
        stream.wait_event(current.record())
        with stream:
            workspace.fill(0)
        compute(inputs, outputs["z"])
        current.wait_event(stream.record())

    return run


def cut(n: int) -> list[slice]:
    """Return slices that cover the numbers."""
    bounds = [n * k // PARTS for k in range(PARTS + 1)]
    return [slice(low, high) for low, high in pairwise(bounds)]


@family.library("graph_replayed", requires=("cupy",))
def graph_replayed(problem, tune, inputs, outputs):
    """Captures its launch as a graph while preparing, and replays it on the current stream."""
    import cupy

    compute(inputs, outputs["z"])
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        side.begin_capture()
        compute(inputs, outputs["z"])
        graph = side.end_capture()
    return lambda: graph.launch(cupy.cuda.get_current_stream())


@family.library("torch_current_stream", requires=("cupy", "torch"))
def torch_current_stream(problem, tune, inputs, outputs):
    """PyTorch on the framework's stream."""
    from cuprof.backends.torch_bridge import as_tensor, on_current_stream

    tensors = [as_tensor(each) for each in (inputs["x"], inputs["y"], outputs["z"])]

    def run():
        with on_current_stream():
            torch_polynomial(*tensors)

    return run


@family.library("torch_default_stream", requires=("cupy", "torch"))
def torch_default_stream(problem, tune, inputs, outputs):
    """PyTorch as its tutorials use it, on its own current stream."""
    import torch

    tensors = [torch.from_dlpack(each) for each in (inputs["x"], inputs["y"], outputs["z"])]
    return lambda: torch_polynomial(*tensors)


def torch_polynomial(x, y, z) -> None:
    """Write y + p(x) into z with PyTorch's own operations."""
    import torch

    torch.mul(x, COEFFICIENTS[0], out=z)
    for coefficient in COEFFICIENTS[1:-1]:
        z.add_(coefficient).mul_(x)
    z.add_(COEFFICIENTS[-1]).add_(y)


@family.library("triton_default_stream", requires=("cupy", "torch", "triton"))
def triton_default_stream(problem, tune, inputs, outputs):
    """Triton launched as its tutorial shows it, on the default stream."""
    import torch

    from .triton_kernel import launch

    tensors = [torch.from_dlpack(each) for each in (inputs["x"], inputs["y"], outputs["z"])]
    return lambda: launch(*tensors)


@family.library("triton_current_stream", requires=("cupy", "torch", "triton"))
def triton_current_stream(problem, tune, inputs, outputs):
    """Triton on the framework's stream."""
    from cuprof.backends.torch_bridge import as_tensor, on_current_stream

    from .triton_kernel import launch

    tensors = [as_tensor(each) for each in (inputs["x"], inputs["y"], outputs["z"])]

    def run():
        with on_current_stream():
            launch(*tensors)

    return run


@family.library("launched_in_pieces", requires=("cupy",))
def launched_in_pieces(problem, tune, inputs, outputs):
    """Several launches with events of its own between them."""
    import cupy

    events = [cupy.cuda.Event(disable_timing=True) for _ in range(PARTS)]
    parts = cut(problem.n)

    def run():
        stream = cupy.cuda.get_current_stream()
        for event, part in zip(events, parts, strict=True):
            make_kernel()(inputs["x"][part], inputs["y"][part], outputs["z"][part])
            event.record(stream)
            stream.wait_event(event)

    return run


@family.library("copied_then_added", requires=("cupy",))
def copied_then_added(problem, tune, inputs, outputs):
    """Copies an input into the output on the current stream, then works in place."""
    import cupy

    first, *others = COEFFICIENTS
    steps = " ".join(f"t = t * x + {each}f;" for each in others)
    add = cupy.ElementwiseKernel("float32 x", "float32 z", f"float t = {first}f; {steps} z += t;", "tricks_add")

    def run():
        copy(outputs["z"], inputs["y"])
        add(inputs["x"], outputs["z"])

    return run


@family.library("workspace_in_prepare", requires=("cupy",))
def workspace_in_prepare(problem, tune, inputs, outputs):
    """Allocates its workspace while preparing, computes in it and copies the result out."""
    import cupy

    workspace = cupy.empty_like(outputs["z"])

    def run():
        compute(inputs, workspace)
        copy(outputs["z"], workspace)

    return run


@family.library("compiled_at_first_launch", requires=("cupy",))
def compiled_at_first_launch(problem, tune, inputs, outputs):
    """Compiles and loads its module at its first call."""
    import cupy

    made = []

    def run():
        if not made:
            steps = " ".join(f"t = t * x[i] + {each}f;" for each in COEFFICIENTS[1:])
            text = (
                'extern "C" __global__ void late(const float* x, const float* y, float* z, unsigned int n) {'
                "unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;"
                f"float t = {COEFFICIENTS[0]}f; {steps} z[i] = t + y[i]; }}"
            )
            made.append(cupy.RawModule(code=text).get_function("late"))
        made[0]((-(-problem.n // 256),), (256,), (inputs["x"], inputs["y"], outputs["z"], cupy.uint32(problem.n)))

    return run


@family.library("tuned_at_first_launch", requires=("cupy",))
def tuned_at_first_launch(problem, tune, inputs, outputs):
    """Times three block sizes with events of its own at its first call, and keeps the best."""
    import cupy

    kernel = make_kernel()
    best: list[int] = []

    def duration_ms(block):
        stream = cupy.cuda.get_current_stream()
        started, ended = cupy.cuda.Event(), cupy.cuda.Event()
        started.record(stream)
        kernel(inputs["x"], inputs["y"], outputs["z"], block_size=block)
        ended.record(stream)
        ended.synchronize()
        return cupy.cuda.get_elapsed_time(started, ended)

    def run():
        if not best:
            best.append(min((128, 256, 512), key=duration_ms))
        kernel(inputs["x"], inputs["y"], outputs["z"], block_size=best[0])

    return run


@lru_cache(maxsize=16)
def grid_for(address: int, n: int) -> tuple[int, int]:
    """Return launch parameters, kept by address and size: how to launch, not what came out."""
    return -(-n // 256), 256


@family.library("descriptor_kept", requires=("cupy",))
def descriptor_kept(problem, tune, inputs, outputs):
    """Keeps its launch parameters by the output's address; results are computed anew each time."""

    def run():
        _, block = grid_for(outputs["z"].data.ptr, problem.n)
        make_kernel()(inputs["x"], inputs["y"], outputs["z"], block_size=block)

    return run


@family.library("handle_kept", requires=("cupy",))
def handle_kept(problem, tune, inputs, outputs):
    """Computes p(x), and adds y by cuBLAS through CuPy's kept handle."""
    import cupy
    from cupy import cublas

    first, *others = COEFFICIENTS
    steps = " ".join(f"t = t * x + {each}f;" for each in others)
    powers = cupy.ElementwiseKernel("float32 x", "float32 z", f"float t = {first}f; {steps} z = t;", "tricks_powers")

    def run():
        powers(inputs["x"], outputs["z"])
        cublas.axpy(1.0, inputs["y"], outputs["z"])

    return run


@family.library("allocator_put_back", requires=("cupy",))
def allocator_put_back(problem, tune, inputs, outputs):
    """Takes a temporary array from a pool of its own, and puts CuPy's allocator back."""
    import cupy

    pool = cupy.cuda.MemoryPool()

    def run():
        with cupy.cuda.using_allocator(pool.malloc):
            temporary = cupy.empty_like(outputs["z"])
            compute(inputs, temporary)
            copy(outputs["z"], temporary)

    return run


@family.library("host_callback", requires=("cupy",))
def host_callback(problem, tune, inputs, outputs):
    """Has the stream call an empty function on the host between launch and end."""
    import cupy

    def run():
        compute(inputs, outputs["z"])
        cupy.cuda.get_current_stream().launch_host_func(lambda _: None, None)

    return run


@family.library("slow_to_launch", requires=("cupy",))
def slow_to_launch(problem, tune, inputs, outputs):
    """Spends two milliseconds in Python before its launch."""

    def run():
        time.sleep(0.002)
        compute(inputs, outputs["z"])

    return run


@family.library("waits_itself", requires=("cupy",))
def waits_itself(problem, tune, inputs, outputs):
    """Waits for the device before it returns."""
    import cupy

    def run():
        compute(inputs, outputs["z"])
        cupy.cuda.get_current_stream().synchronize()

    return run


@family.library("stack_raised", requires=("cupy", "cuda.bindings"))
def stack_raised(problem, tune, inputs, outputs):
    """Raises the stack's limit while it prepares, as what recurses on the device has to, and needs it when it runs."""
    driver = get_driver()
    stack = driver.CUlimit.CU_LIMIT_STACK_SIZE
    succeed(driver.cuCtxSetLimit(stack, 16384))

    def run():
        if succeed(driver.cuCtxGetLimit(stack)) != 16384:
            raise RuntimeError("the stack is too small")
        compute(inputs, outputs["z"])

    return run


@family.library("device_probe", requires=("cupy", "cuda.bindings"))
def device_probe(problem, tune, inputs, outputs):
    """Takes ten times as long where somebody left the context's settings changed, as code may that heeds them."""
    driver, usual = get_driver(), read_usual_limits()

    def run():
        is_sound = (
            tuple(succeed(driver.cuCtxGetLimit(getattr(driver.CUlimit, name))) for name in LIMITS) == usual
            and not int(succeed(driver.cuCtxGetCacheConfig()))
            and not has_switches_left()
        )
        for _ in range(1 if is_sound else SLOWED):
            compute(inputs, outputs["z"])

    return run


SLOWED = 10
LIMITS = ("CU_LIMIT_STACK_SIZE", "CU_LIMIT_PERSISTING_L2_CACHE_SIZE")
READING = f"""
import cupy
from cuda.bindings import driver
cupy.zeros(1)
print(*(int(driver.cuCtxGetLimit(getattr(driver.CUlimit, name))[1]) for name in {LIMITS!r}))
"""


@cache
def read_usual_limits():
    """Return the limits of a context that nobody has changed, one in a process of its own: devices differ in them."""
    told = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, check=True, timeout=60)
    return tuple(map(int, told.stdout.split()))


def has_switches_left() -> bool:
    """Return whether PyTorch, where it is loaded at all, computes otherwise than it does by itself."""
    torch = sys.modules.get("torch")
    return torch is not None and (torch.backends.cuda.matmul.allow_tf32 or torch.get_default_dtype() != torch.float32)
