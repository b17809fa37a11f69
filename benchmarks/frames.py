"""What a sample costs beyond what the device needs for it.

    python -m benchmarks.frames --out FOLDER

The same frame (overwrite the output, flush, event, kernel, event, compare the output) in a bare loop, one at a time and
32 in flight, and in cuprof's session: axpy of 2^24 numbers, which takes the device 0.05 ms, and of 2^12, which takes it
next to nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from benchmarks.table import make_parser, report, start

SIZES = (1 << 24, 1 << 12)
SAMPLES = 800
DEPTH = 32
SAMPLES_A_SET = 16
"""Executions that find the same set of inputs, as in a sweep of that many variants."""
MOST_TIMES, MOST_US = 1.15, 220.0
"""cuprof may take this many times what the bare loop takes, and this long for a sample of the larger problem."""
COLUMNS = ("numbers", "way", "a sample µs", "median µs", "times the bare loop")
SOURCE = """
extern "C" __global__ void axpy(const float* x, const float* y, float* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = 2.0f * x[i] + y[i];
}
extern "C" __global__ void compare(const float* z, const float* right, int n, int* wrong) {
    int found = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        found |= !(fabsf(z[i] - right[i]) <= 1e-5f * fabsf(right[i]));
    if (found) atomicAdd(wrong, 1);
}
"""


def sample(begin: Callable[[], Callable[[], float]], depth: int) -> tuple[float, float]:
    """Return µs of the host's clock a sample, and the median of the durations that were read.

    Args:
        begin: enqueues a frame, and returns what waits for its duration in ns.
        depth: frames in flight.
    """
    pending: deque[Callable[[], float]] = deque()
    found = []
    started = time.perf_counter()
    for _ in range(SAMPLES):
        pending.append(begin())
        if len(pending) >= depth:
            found.append(pending.popleft()())
    found += [read() for read in pending]
    return (time.perf_counter() - started) / SAMPLES * 1e6, statistics.median(found) / 1e3


def draw_inputs(n: int) -> dict[str, np.ndarray]:
    """Return what axpy reads."""
    rng = np.random.default_rng(n)
    return {name: rng.random(n, dtype=np.float32) for name in "xy"}


def make_bare(backend: Any, n: int) -> Callable[[], Callable[[], float]]:
    """Return the frame in a bare loop: driver calls on arrays of its own."""
    from cuprof.backends.cuda.driver import PackedLaunch, call
    from cuprof.builds.nvrtc import NvrtcBuild
    from cuprof.families import Launch

    device = backend.device
    driver, stream, timer = device.driver, device.stream.ptr, device.timer
    module = device.load(device.cache.compile(NvrtcBuild(SOURCE, "axpy.cu", device.arch))[0].image)
    x, y = (device.upload(array) for array in draw_inputs(n).values())
    z, right, wrong = device.cupy.empty_like(x), 2 * x + y, device.cupy.zeros(1, device.cupy.int32)

    def launch(name: str, blocks: int, *arguments: Any) -> PackedLaunch:
        function = call(driver.cuModuleGetFunction(module, name.encode()), f"find {name}")
        return PackedLaunch(Launch(name, (blocks,), (256,)), function, arguments)

    kernel = launch("axpy", n // 256, x.data.ptr, y.data.ptr, z.data.ptr, np.int32(n))
    blocks = min(n // 256, 8 * device.multiprocessors)
    compare = launch("compare", blocks, z.data.ptr, right.data.ptr, np.int32(n), wrong.data.ptr)
    flush = timer.reader(timer.flush_buffer, 4 * device.multiprocessors)
    events = [[call(driver.cuEventCreate(0), "create an event") for _ in range(2)] for _ in range(DEPTH)]
    numbers = count()

    def begin() -> Callable[[], float]:
        first, last = events[next(numbers) % DEPTH]
        driver.cuMemsetD8Async(z.data.ptr, 0xFF, z.nbytes, stream)
        flush(stream)
        driver.cuEventRecord(first, stream)
        kernel(stream)
        driver.cuEventRecord(last, stream)
        compare(stream)

        def read() -> float:
            driver.cuEventSynchronize(last)
            return float(driver.cuEventElapsedTime(first, last)[1]) * 1e6

        return read

    return begin


def make_own(backend: Any, n: int) -> tuple[Any, Callable[[], Callable[[], float]]]:
    """Return a session of cuprof, and its frame."""
    from cuprof.backends.contract import Draw, ReadingOptions
    from cuprof.core.point import Point
    from cuprof.core.records import Measure
    from cuprof.families import Array, Launch, Program, Signature, Tolerance, Variant

    arrays = {name: Array((n,), "float32") for name in "xyz"}
    first = draw_inputs(n)
    second = {name: array[::-1].copy() for name, array in first.items()}
    sets = (first, second)
    session = backend.open(
        Signature({name: arrays[name] for name in "xy"}, {"z": arrays["z"]}), first, ReadingOptions()
    )
    session.stock(sets, [{"z": 2 * each["x"] + each["y"]} for each in sets])
    assert session.stocked == len(sets)
    program = Program((Launch("axpy", (n // 256,), (256,), ("x", "y", "z", np.int32(n))),))
    variant = Variant("axpy", "cuda", "kernel", lambda *_: None, "", "axpy.cu")
    runnable = session.prepare(variant, Point(n=n), Point(), program, SOURCE)
    assert session.expect(runnable, [Tolerance(relative=1e-5)] * len(sets))
    numbers = count()

    def draw() -> Draw:
        number = next(numbers)
        return Draw(number // SAMPLES_A_SET % len(sets), number % 256, compare=True, fresh=False)

    def begin() -> Callable[[], float]:
        frame = session.begin(runnable, Measure.COLD, 1, draw)
        return lambda: float(frame().duration_ns)

    return session, begin


def measure() -> list[dict[str, Any]]:
    """Return a row for each size and way, the ways in turn and again."""
    from cuprof.backends.cuda.backend import CudaBackend

    backend = CudaBackend()
    rows = []
    for n in SIZES:
        session, own = make_own(backend, n)
        bare = make_bare(backend, n)
        ways = {"bare, one at a time": (bare, 1), "bare": (bare, DEPTH), "cuprof": (own, DEPTH)}
        found = {way: sample(*given) for way, given in (*ways.items(), *ways.items())}  # the first time warms up
        session.close()
        for way, (each_us, median_us) in found.items():
            times = each_us / found["bare"][0]
            rows.append({"numbers": n, "way": way, "a sample µs": each_us, "median µs": median_us, COLUMNS[-1]: times})
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where cuprof is as fast as it has to be."""
    arguments = make_parser("the cost of a sample beside that of the same frame in a bare loop").parse_args(argv)
    rows = measure()
    large = next(row for row in rows if row["way"] == "cuprof")
    criteria: dict[str, bool | None] = {
        f"at most {MOST_TIMES} × the bare loop at 2^24": large[COLUMNS[-1]] <= MOST_TIMES,
        f"at most {MOST_US:g} µs a sample at 2^24": large["a sample µs"] <= MOST_US,
    }
    return report("frames", COLUMNS, rows, arguments.out, criteria)


if __name__ == "__main__":
    sys.exit(start(main))
