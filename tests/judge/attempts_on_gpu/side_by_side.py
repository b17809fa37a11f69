"""What strangers try on a GPU: 16 executions at a time, each on a set of its own and as long as three of the baseline."""

import cupy

SETS = 16
_spin = cupy.RawKernel(
    r"""
extern "C" __global__ void spin(const float* x, float* y, int n, long long limit_ns) {
    long long began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - began < limit_ns);
}
""",
    "spin",
)
_streams, _last = [], {}


def _mark(stream):
    return stream.record(cupy.cuda.Event(disable_timing=True))


def _prepare(inputs, outputs, may_be_captured):
    number, x, y = len(_streams), inputs["x"], outputs["y"]
    _streams.append(cupy.cuda.Stream(non_blocking=True))

    def call():
        current, side = cupy.cuda.get_current_stream(), _streams[number]
        if current.is_capturing() and not may_be_captured:
            raise RuntimeError("not in a graph")
        follows = _last.get("state") == (number - 1, current.is_capturing()) and number % SETS > 0
        if not follows:
            _last["began"] = _mark(current)
        _last["state"] = number, current.is_capturing()
        side.wait_event(_last["began"])
        with side:
            _spin((8,), (1024,), (x, y, cupy.int32(x.size), cupy.int64(60_000)))
        current.wait_event(_mark(side))

    return call


@family.library("in_a_graph", requires="cupy")
def in_a_graph(problem, tune, inputs, outputs):
    return _prepare(inputs, outputs, may_be_captured=True)


@family.library("launched", requires="cupy")
def launched(problem, tune, inputs, outputs):
    return _prepare(inputs, outputs, may_be_captured=False)
