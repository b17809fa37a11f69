"""y = 2 x in every form in which a kernel may be written; a test and a benchmark run all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuprof import (
    Array,
    Axis,
    Execute,
    Family,
    File,
    Invoke,
    Launch,
    Program,
    Signature,
    TensorMap,
    Texture,
    Tolerance,
    Tunable,
)

THREADS = 256
WIDTH = 1024
"""Texels a row of the two-dimensional texture; n is a multiple of it."""
LINE = np.dtype([("slope", "f4"), ("length", "i4"), ("offset", "f8")], align=True)

family = Family(
    name="forms",
    title="Twice x",
    axes=(Axis("n", 2**20, low=WIDTH, high=2**30),),
    constraint=lambda problem: f"n is no multiple of {WIDTH}" if problem.n % WIDTH else None,
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.uniform(-1, 1, problem.n).astype(np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(reason="doubling a float32 is exact"),
    useful_bytes=lambda problem: 8 * problem.n,
    flops=lambda problem: problem.n,
    baseline="template",
)


def launch(kernel: str, n: int, *args: Any, **attributes: Any) -> Launch:
    return Launch(kernel, (-(-n // THREADS),), (THREADS,), args or ("x", "y", n), **attributes)


# C++ through NVRTC


@family.cuda("template", source="templates.cu", tunables=(Tunable("threads", (128, 256, 512), 256),))
def template(problem, tune):
    """Two instantiations of a template, each of half the elements, and a macro."""
    half = problem.n // 2
    blocks = -(-half // tune.threads)
    first = Launch(f"scale<float, {tune.threads}>", (blocks,), (tune.threads,), ("x", "half", half))
    second = launch("scale<float, 256>", problem.n)
    return Program((first, second), {"FACTOR": 2}, scratch={"half": Array((half,), "float32")})


@family.cuda("one_template", source="templates.cu", tunables=(Tunable("threads", (128, 256, 512), 256),))
def one_template(problem, tune):
    """One instantiation of a template."""
    blocks = -(-problem.n // tune.threads)
    step = Launch(f"scale<float, {tune.threads}>", (blocks,), (tune.threads,), ("x", "y", problem.n))
    return Program((step,), {"FACTOR": 2})


@family.cuda("namespace", source="templates.cu")
def namespace(problem, tune):
    """A function of a namespace, without extern "C"."""
    return Program((launch("forms::plain", problem.n),), {"FACTOR": "2.0f"})


@family.cuda("struct", source="templates.cu")
def struct(problem, tune):
    """A struct by value, to a kernel that is found by its plain C++ name."""
    line = np.array((2.0, problem.n, 0.0), LINE)[()]
    return Program((launch("straight", problem.n, "x", "y", line),), {"FACTOR": 2})


@family.cuda("cluster", source="launches.cu")
def cluster(problem, tune):
    """Clusters of two blocks that read one another's shared memory."""
    return Program((launch("exchanges", problem.n, cluster=(2,)),))


@family.cuda("overlapping", source="launches.cu")
def overlapping(problem, tune):
    """A launch that begins while the one ahead of it runs."""
    n = problem.n
    steps = (launch("first", n, "x", "half", n), launch("second", n, "half", "y", n, overlaps=True))
    return Program(steps, scratch={"half": Array((n,), "float32")})


@family.cuda("texture", source="launches.cu")
def texture(problem, tune):
    """A linear texture."""
    return Program((launch("fetches", problem.n, Texture("x"), "y", problem.n),))


@family.cuda("texture_2d", source="launches.cu")
def texture_2d(problem, tune):
    """A texture of two dimensions."""
    return Program((launch("fetches_rows", problem.n, Texture("x", WIDTH), "y", problem.n, WIDTH),))


@family.cuda("tma", source="launches.cu")
def tma(problem, tune):
    """Boxes that TMA copies in and out."""
    return Program((launch("copies_boxes", problem.n, TensorMap("x", (THREADS,)), TensorMap("y", (THREADS,))),))


@family.cuda("nested", source="nested.cu")
def nested(problem, tune):
    """A kernel that launches a kernel."""
    return Program((Launch("parent", (1,), (32,), ("x", "y", problem.n)),), options=("-rdc=true",))


# compiled before


@family.cuda("ptx", source="ready.ptx")
@family.cuda("cubin", source="ready.cubin")
@family.cuda("fatbin", source="ready.fatbin")
def ready(problem, tune):
    """An image that was compiled before."""
    return Program((launch("ready", problem.n),))


# by nvcc


@family.cuda("nvcc", source="templates.cu", compiler="nvcc")
def nvcc(problem, tune):
    """Device code by nvcc."""
    return Program((launch("forms::plain", problem.n),), {"FACTOR": "2.0f"})


@family.cuda("host_launcher", source="host.cu", compiler="nvcc", tunables=(Tunable("threads", (128, 256), 256),))
def host_launcher(problem, tune):
    """A shared library whose host code launches its kernel."""
    step = Invoke("launch", ("x", "y", problem.n))
    return Program((step,), {"THREADS": tune.threads})


@family.cuda("thrust", source="thrust.cu", compiler="nvcc")
def thrust(problem, tune):
    """A shared library whose host code calls a library of templates."""
    return Program((Invoke("transform", ("x", "y", problem.n)),), options=("--extended-lambda",))


@family.program("executable", source="main.cu", compiler="nvcc", tunables=(Tunable("threads", (128, 256), 256),))
def executable(problem, tune):
    """A whole program on the GPU, with files in and out."""
    return Program((Execute((problem.n, File("x"), File("y"))),), {"THREADS": tune.threads})


# Python


@family.triton("triton", source="scale_triton.py", kernel="scale")
def triton(problem, tune):
    """A Triton function over the configurations of its autotuner."""
    grid = (-(-problem.n // tune.BLOCK),)
    return Program((Launch("scale", grid, args=("x", "y", problem.n)),), dict(tune))


@family.library("raw_kernel", requires="cupy")
def raw_kernel(problem, tune, inputs, outputs):
    """CuPy's RawKernel."""
    import cupy

    code = 'extern "C" __global__ void twice(const float* x, float* y, int n)'
    code += "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2.0f * x[i]; }"
    kernel = cupy.RawKernel(code, "twice")
    x, y, blocks = inputs["x"], outputs["y"], -(-problem.n // THREADS)
    return lambda: kernel((blocks,), (THREADS,), (x, y, np.int32(problem.n)))


@family.library("raw_module", requires="cupy")
def raw_module(problem, tune, inputs, outputs):
    """A template of CuPy's RawModule."""
    import cupy

    code = "template <typename T> __global__ void twice(const T* x, T* y, int n)"
    code += "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = T(2) * x[i]; }"
    module = cupy.RawModule(code=code, name_expressions=("twice<float>",))
    kernel, blocks = module.get_function("twice<float>"), -(-problem.n // THREADS)
    x, y = inputs["x"], outputs["y"]
    return lambda: kernel((blocks,), (THREADS,), (x, y, np.int32(problem.n)))


@family.library("elementwise", requires="cupy")
def elementwise(problem, tune, inputs, outputs):
    """CuPy's ElementwiseKernel."""
    import cupy

    kernel = cupy.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x", "twice")
    x, y = inputs["x"], outputs["y"]
    return lambda: kernel(x, y)


@family.library("reduction", requires="cupy")
def reduction(problem, tune, inputs, outputs):
    """CuPy's ReductionKernel, over rows of one element."""
    import cupy

    kernel = cupy.ReductionKernel("float32 x", "float32 y", "x", "a + b", "y = 2 * a", "0", "twice")
    x, y = inputs["x"].reshape(-1, 1), outputs["y"]
    return lambda: kernel(x, y, axis=1)


@family.library("numba", requires=("numba", "numba_cuda"))
def numba(problem, tune, inputs, outputs):
    """Numba-CUDA."""
    from numba import cuda

    @cuda.jit
    def twice(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = np.float32(2) * x[i]

    x, y, kernel = (
        cuda.as_cuda_array(inputs["x"]),
        cuda.as_cuda_array(outputs["y"]),
        twice[-(-problem.n // THREADS), THREADS],
    )
    return lambda: kernel(x, y)


@family.library("torch", requires="torch")
def torch_eager(problem, tune, inputs, outputs):
    """PyTorch."""
    from cuprof.backends.torch_bridge import as_tensor, get_torch, on_current_stream

    torch, x, y = get_torch(), as_tensor(inputs["x"]), as_tensor(outputs["y"])

    def run():
        with on_current_stream():
            torch.mul(x, 2.0, out=y)

    return run


@family.library("torch_compile", requires=("torch", "triton"))
def torch_compile(problem, tune, inputs, outputs):
    """PyTorch's compiler."""
    from cuprof.backends.torch_bridge import as_tensor, get_torch, on_current_stream

    torch, x, y = get_torch(), as_tensor(inputs["x"]), as_tensor(outputs["y"])

    @torch.compile
    def twice(x, y):
        y.copy_(2.0 * x)

    def run():
        with on_current_stream():
            twice(x, y)

    run()
    return run


@family.library("torch_operator", requires="torch")
def torch_operator(problem, tune, inputs, outputs):
    """A custom operator of PyTorch."""
    from cuprof.backends.torch_bridge import as_tensor, on_current_stream

    from .operators import get_operator

    operator, x, y = get_operator(), as_tensor(inputs["x"]), as_tensor(outputs["y"])

    def run():
        with on_current_stream():
            operator(x, y)

    return run


@family.library("torch_extension", requires=("torch", "ninja"))
def torch_extension(problem, tune, inputs, outputs):
    """An extension of PyTorch in CUDA C++."""
    from cuprof.backends.torch_bridge import as_tensor, on_current_stream

    from .operators import load_extension

    extension, x, y = load_extension(), as_tensor(inputs["x"]), as_tensor(outputs["y"])

    def run():
        with on_current_stream():
            extension.run(x, y)

    return run


# other devices


@family.opencl("opencl", source="scale.cl")
def opencl(problem, tune):
    """OpenCL C."""
    return Program((launch("scale", problem.n),))


@family.cpu("numpy")
def numpy(problem, tune, inputs, outputs):
    """NumPy."""
    x, y = inputs["x"], outputs["y"]
    return lambda: np.multiply(x, np.float32(2), out=y)


@family.kernel("library", backend="cpu", source="host.cpp", compiler="g++", tunables=(Tunable("factor", (2, 3), 2),))
def library(problem, tune):
    """A function of a shared library on the host."""
    return Program((Invoke("run", ("x", "y", problem.n)),), {"FACTOR": tune.factor})


@family.program(
    "host_program",
    source="main.cpp",
    compiler="g++",
    constraint=lambda problem, tune: "it prints a line a number" if problem.n > 2**16 else None,
)
def host_program(problem, tune):
    """A whole program on the host, which prints its result."""
    return Program((Execute((problem.n, File("x", "text")), stdout="y"),))
