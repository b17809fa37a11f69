"""Tricks on the GPU that put their work where the frame is not: other streams, threads, graphs, kernels that stay."""

from __future__ import annotations

import queue
import threading

import numpy as np

from .device import compute, get_driver, looks_poisoned, succeed
from .problem import family, polynomial


@family.library("own_stream", requires=("cupy",))
def own_stream(problem, tune, inputs, outputs):
    """Works on a stream of its own that nobody waits for."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)

    def run():
        with stream:
            compute(inputs, outputs["z"])

    return run


@family.library("own_stream_joined_for_checks", requires=("cupy",))
def own_stream_joined_for_checks(problem, tune, inputs, outputs):
    """Works on a stream of its own, and joins it only where the output looks as before a check."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)

    def run():
        checked = looks_poisoned(outputs["z"])
        with stream:
            compute(inputs, outputs["z"])
        if checked:
            stream.synchronize()

    return run


@family.library("joined_too_early", requires=("cupy",))
def joined_too_early(problem, tune, inputs, outputs):
    """Forks to a stream of its own and joins it by an event that lies before most of the work."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    first = slice(0, 1024)

    def run():
        current = cupy.cuda.get_current_stream()
        stream.wait_event(current.record())
        with stream:
            compute({name: array[first] for name, array in inputs.items()}, outputs["z"][first])
            current.wait_event(stream.record())
            compute(inputs, outputs["z"])

    return run


@family.library("per_thread_default_stream", requires=("cupy",))
def per_thread_default_stream(problem, tune, inputs, outputs):
    """Works on the default stream of its thread, which waits for nobody's stream."""
    import cupy

    def run():
        with cupy.cuda.Stream.ptds:
            compute(inputs, outputs["z"])

    return run


@family.library("stream_left_current", requires=("cupy",))
def stream_left_current(problem, tune, inputs, outputs):
    """Makes a stream of its own CuPy's current one and leaves it so, for itself and those after it."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)

    def run():
        stream.use()
        compute(inputs, outputs["z"])

    return run


@family.library("capture_left_open", requires=("cupy", "cuda.bindings"))
def capture_left_open(problem, tune, inputs, outputs):
    """Leaves a capture open on the framework's stream once it has been checked: nothing runs from then on."""
    import cupy

    driver, calls = get_driver(), [0]
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED

    def run():
        calls[0] += 1
        if calls[0] == 3:
            succeed(driver.cuStreamBeginCapture(cupy.cuda.get_current_stream().ptr, mode))
        compute(inputs, outputs["z"])

    return run


@family.library("graph_not_launched", requires=("cupy",))
def graph_not_launched(problem, tune, inputs, outputs):
    """Captures its work as a graph each time, and launches it only where the output looks as before a check."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    compute(inputs, outputs["z"])

    def run():
        checked = looks_poisoned(outputs["z"])
        with stream:
            stream.begin_capture()
            compute(inputs, outputs["z"])
            graph = stream.end_capture()
        if checked:
            graph.launch(cupy.cuda.get_current_stream())

    return run


@family.library("graph_launched_elsewhere", requires=("cupy",))
def graph_launched_elsewhere(problem, tune, inputs, outputs):
    """Launches its graph on a stream of its own that nobody waits for."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    compute(inputs, outputs["z"])
    with stream:
        stream.begin_capture()
        compute(inputs, outputs["z"])
        graph = stream.end_capture()
    return lambda: graph.launch(stream)


@family.library("device_thread_handed", requires=("cupy",))
def device_thread_handed(problem, tune, inputs, outputs):
    """Hands the launch to a thread and returns."""
    import cupy

    device = cupy.cuda.Device().id
    tasks: queue.Queue[bool] = queue.Queue()

    def work():
        with cupy.cuda.Device(device), cupy.cuda.Stream(non_blocking=True) as stream:
            while tasks.get():
                compute(inputs, outputs["z"])
                stream.synchronize()
                tasks.task_done()

    compute(inputs, outputs["z"])
    threading.Thread(target=work, daemon=True).start()

    def run():
        checked = looks_poisoned(outputs["z"])
        if checked:
            tasks.join()
        if not tasks.unfinished_tasks:
            tasks.put(True)
        if checked:
            tasks.join()

    return run


RESIDENT = r"""
extern "C" __global__ void resident(const float* x, const float* y, float* z, unsigned int n,
                                    volatile unsigned int* asked, unsigned long long limit_ns) {
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    unsigned int done = *asked;
    do {
        const unsigned int wanted = *asked;
        if (wanted != done) {
            for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                float t = 0.0625f;
                for (int k = 2; k < 9; ++k) t = t * x[i] + 0.0625f * k;
                z[i] = t + y[i];
            }
            done = wanted;
        }
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - began < limit_ns);
}"""
RESIDENT_NS = 200_000_000


@family.library("resident_kernel", requires=("cupy",))
def resident_kernel(problem, tune, inputs, outputs):
    """Leaves a kernel on the device for 0.2 s at a time that works when a word changes; each execution changes it."""
    import cupy

    kernel = cupy.RawKernel(RESIDENT, "resident")
    stream, asked = cupy.cuda.Stream(non_blocking=True), cupy.zeros(1, cupy.uint32)
    count = [0]

    def run():
        checked = looks_poisoned(outputs["z"])
        if stream.done:
            with stream:
                arguments = (
                    inputs["x"],
                    inputs["y"],
                    outputs["z"],
                    np.uint32(problem.n),
                    asked,
                    np.uint64(RESIDENT_NS),
                )
                kernel((64,), (512,), arguments)
        count[0] = (count[0] + 1) % 250
        cupy.cuda.runtime.memsetAsync(asked.data.ptr, count[0], 4, cupy.cuda.get_current_stream().ptr)
        if checked:
            stream.synchronize()
            compute(inputs, outputs["z"])

    return run


@family.library("host_works", requires=("cupy",))
def host_works(problem, tune, inputs, outputs):
    """Computes on the host while the device is held back, and only uploads inside the frame."""
    import cupy

    x, y = (inputs[name].get() for name in ("x", "y"))
    pinned = cupy.cuda.alloc_pinned_memory(4 * problem.n)
    z = np.frombuffer(pinned, np.float32, problem.n)

    def run():
        polynomial(x, y, z)
        outputs["z"].data.copy_from_host_async(z.ctypes.data, z.nbytes, cupy.cuda.get_current_stream())

    return run


@family.library("finaliser_launches", requires=("cupy",))
def finaliser_launches(problem, tune, inputs, outputs):
    """Keeps this execution's launch until the next one begins, in a finaliser on a stream of its own."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    kept: list[object] = []

    class Work:
        def __del__(self):
            with stream:
                compute(inputs, outputs["z"])

    def run():
        if looks_poisoned(outputs["z"]):
            compute(inputs, outputs["z"])
        kept[:] = [Work()]

    return run
