"""y = 2·x by CuPy, in the ways in which people call it."""

import cupy

_each = cupy.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x", "doubled_each")
_source = 'extern "C" __global__ void doubled(const float* x, float* y, int n) {' \
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i]; }"  # fmt: skip
_raw = cupy.RawKernel(_source, "doubled")
_template = "template <typename T> __global__ void doubled(const T* x, T* y, int n)" \
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }"  # fmt: skip


def _launch(x, y, kernel=_raw):
    kernel((-(-x.size // 256),), (256,), (x, y, cupy.int32(x.size)))


@family.library("elementwise", requires="cupy")
def elementwise(problem, tune, inputs, outputs):
    return lambda: _each(inputs["x"], outputs["y"])


@family.library("ufunc", requires="cupy")
def ufunc(problem, tune, inputs, outputs):
    return lambda: cupy.multiply(inputs["x"], cupy.float32(2), out=outputs["y"])


@family.library("raw_kernel", requires="cupy")
def raw_kernel(problem, tune, inputs, outputs):
    return lambda: _launch(inputs["x"], outputs["y"])


@family.library("raw_module", requires="cupy")
def raw_module(problem, tune, inputs, outputs):
    module = cupy.RawModule(code=_template, options=("-std=c++17",), name_expressions=("doubled<float>",))
    kernel = module.get_function("doubled<float>")
    return lambda: _launch(inputs["x"], outputs["y"], kernel)


@family.library("built_in_the_first_call", requires="cupy")
def built_in_the_first_call(problem, tune, inputs, outputs):
    built = {}

    def call():
        if not built:
            built["kernel"] = cupy.RawKernel(_source.replace("2 * x[i]", "x[i] + x[i]"), "doubled")
        _launch(inputs["x"], outputs["y"], built["kernel"])

    return call


@family.library("two_streams", requires="cupy")
def two_streams(problem, tune, inputs, outputs):
    x, y, half = inputs["x"], outputs["y"], problem.n // 2
    other = cupy.cuda.Stream(non_blocking=True)

    def call():
        current = cupy.cuda.get_current_stream()
        other.wait_event(current.record(cupy.cuda.Event(disable_timing=True)))
        with other:
            _each(x[:half], y[:half])
            done = other.record(cupy.cuda.Event(disable_timing=True))
        _each(x[half:], y[half:])
        current.wait_event(done)

    return call


@family.library("cached_workspace", requires="cupy")
def cached_workspace(problem, tune, inputs, outputs):
    held = cupy.empty_like(outputs["y"])

    def call():
        cupy.add(inputs["x"], inputs["x"], out=held)
        outputs["y"][...] = held

    return call


@family.library("workspace_of_all", requires="cupy")
def workspace_of_all(problem, tune, inputs, outputs, held={}):
    def call():
        if problem.n not in held:
            held[problem.n] = cupy.empty_like(outputs["y"])
        cupy.add(inputs["x"], inputs["x"], out=held[problem.n])
        outputs["y"][...] = held[problem.n]

    return call


@family.library("allocates", requires="cupy")
def allocates(problem, tune, inputs, outputs):
    def call():
        outputs["y"][...] = inputs["x"] * cupy.float32(2)

    return call


@family.library("own_pool", requires="cupy")
def own_pool(problem, tune, inputs, outputs):
    pool = cupy.cuda.MemoryPool()

    def call():
        with cupy.cuda.using_allocator(pool.malloc):
            outputs["y"][...] = inputs["x"] + inputs["x"]

    return call


@family.library("asynchronous_pool", requires="cupy")
def asynchronous_pool(problem, tune, inputs, outputs):
    pool = cupy.cuda.MemoryAsyncPool()

    def call():
        with cupy.cuda.using_allocator(pool.malloc):
            outputs["y"][...] = inputs["x"] + inputs["x"]

    return call


@family.library("in_place", requires="cupy")
def in_place(problem, tune, inputs, outputs):
    def call():
        outputs["y"][...] = inputs["x"]
        outputs["y"] *= cupy.float32(2)

    return call


@family.library("several_kernels", requires="cupy")
def several_kernels(problem, tune, inputs, outputs):
    parts = [(inputs["x"][k::4], outputs["y"][k::4]) for k in range(4)]
    return lambda: [_each(x, y) for x, y in parts]


@family.library("fused", requires="cupy")
def fused(problem, tune, inputs, outputs):
    @cupy.fuse()
    def doubled(x):
        return x + x

    def call():
        outputs["y"][...] = doubled(inputs["x"])

    return call


@family.library("handle", requires="cupy")
def handle(problem, tune, inputs, outputs):
    from cupy import cublas

    def call():
        outputs["y"][...] = inputs["x"]
        cublas.scal(2.0, outputs["y"])

    return call


@family.library("just_in_time", requires="cupy")
def just_in_time(problem, tune, inputs, outputs):
    from cupyx import jit

    n = problem.n

    @jit.rawkernel()
    def doubled(x, y, n):
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < n:
            y[i] = x[i] + x[i]

    return lambda: doubled((-(-n // 256),), (256,), (inputs["x"], outputs["y"], cupy.int32(n)))


@family.library("own_graph", requires="cupy")
def own_graph(problem, tune, inputs, outputs):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        _launch(inputs["x"], outputs["y"])
        stream.synchronize()
        stream.begin_capture()
        _launch(inputs["x"], outputs["y"])
        graph = stream.end_capture()
    return lambda: graph.launch(cupy.cuda.get_current_stream())


@family.library("synchronizes", requires="cupy")
def synchronizes(problem, tune, inputs, outputs):
    def call():
        _each(inputs["x"], outputs["y"])
        cupy.cuda.get_current_stream().synchronize()

    return call


@family.library("reads_back", requires="cupy")
def reads_back(problem, tune, inputs, outputs):
    def call():
        if float(inputs["x"][:16].sum()) < 1e30:
            _each(inputs["x"], outputs["y"])

    return call


@family.library("own_stream_waited_for", requires="cupy")
def own_stream_waited_for(problem, tune, inputs, outputs):
    stream = cupy.cuda.Stream(non_blocking=True)

    def call():
        cupy.cuda.get_current_stream().synchronize()
        with stream:
            _each(inputs["x"], outputs["y"])
        stream.synchronize()

    return call
