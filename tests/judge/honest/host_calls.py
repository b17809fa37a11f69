"""y = 2·x on the host."""

import ctypes
import queue
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


@family.cpu("whole")
def whole(problem, tune, inputs, outputs):
    return lambda: np.multiply(inputs["x"], np.float32(2), out=outputs["y"])


@family.cpu("temporary")
def temporary(problem, tune, inputs, outputs):
    def call():
        outputs["y"][:] = inputs["x"] + inputs["x"]

    return call


@family.cpu("workspace")
def workspace(problem, tune, inputs, outputs, held={}):
    def call():
        own = held.setdefault(problem.n, np.empty(problem.n, np.float32))
        np.add(inputs["x"], inputs["x"], out=own)
        np.copyto(outputs["y"], own)

    return call


@family.cpu("in_place_on_host")
def in_place_on_host(problem, tune, inputs, outputs):
    def call():
        np.copyto(outputs["y"], inputs["x"])
        outputs["y"] *= np.float32(2)

    return call


@family.cpu("blocked")
def blocked(problem, tune, inputs, outputs):
    parts = [slice(start, start + 4096) for start in range(0, problem.n, 4096)]
    return lambda: [np.add(inputs["x"][part], inputs["x"][part], out=outputs["y"][part]) for part in parts]


@family.cpu("pool_of_threads")
def pool_of_threads(problem, tune, inputs, outputs, held=[]):
    if not held:
        held.append(ThreadPoolExecutor(2))
    half = problem.n // 2

    def part(of):
        np.add(inputs["x"][of], inputs["x"][of], out=outputs["y"][of])

    return lambda: list(held[0].map(part, (slice(0, half), slice(half, None))))


@family.cpu("threads_of_each_call")
def threads_of_each_call(problem, tune, inputs, outputs):
    def part(of):
        np.add(inputs["x"][of], inputs["x"][of], out=outputs["y"][of])

    def call():
        threads = [threading.Thread(target=part, args=(slice(k, None, 2),)) for k in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    return call


@family.cpu("a_thread_that_works")
def a_thread_that_works(problem, tune, inputs, outputs, held=[]):
    if not held:
        asked, done = queue.SimpleQueue(), queue.SimpleQueue()

        def work():
            while True:
                x, y = asked.get()
                np.add(x, x, out=y)
                done.put(None)

        threading.Thread(target=work, daemon=True).start()
        held.append((asked, done))

    def call():
        asked, done = held[0]
        asked.put((inputs["x"], outputs["y"]))
        done.get()

    return call


@family.cpu("library_of_its_own")
def library_of_its_own(problem, tune, inputs, outputs, held={}):
    if not held:
        folder = Path(tempfile.mkdtemp())
        (folder / "own.c").write_text("void doubled(const float* x, float* y, long n)"
                                      "{ for (long i = 0; i < n; ++i) y[i] = x[i] + x[i]; }")  # fmt: skip
        subprocess.run(["gcc", "-O3", "-shared", "-fPIC", "-o", folder / "own.so", folder / "own.c"], check=True)
        held["doubled"] = ctypes.CDLL(str(folder / "own.so")).doubled
    x, y = (ctypes.c_void_p(array.ctypes.data) for array in (inputs["x"], outputs["y"]))
    return lambda: held["doubled"](x, y, ctypes.c_long(problem.n))


@family.cpu("lazy")
def lazy(problem, tune, inputs, outputs):
    factors = {}
    return lambda: np.multiply(inputs["x"], factors.setdefault("two", np.float32(2)), out=outputs["y"])


@family.cpu("reads_the_clock")
def reads_the_clock(problem, tune, inputs, outputs):
    import time

    spent = []

    def call():
        started = time.perf_counter()
        np.add(inputs["x"], inputs["x"], out=outputs["y"])
        spent.append(time.perf_counter() - started)

    return call
