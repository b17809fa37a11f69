"""Honest variants on the CPU that share a habit with some trick."""

from __future__ import annotations

import gc
import os
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import scipy.fft

from .problem import COEFFICIENTS, family, polynomial

PIECE = 1 << 13


@family.cpu("numpy")
def numpy_variant(problem, tune, inputs, outputs):
    """NumPy, one pass a step; what the others on the CPU are held against."""
    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    return lambda: polynomial(x, y, z)


@family.cpu("threads_joined")
def threads_joined(problem, tune, inputs, outputs):
    """Hands halves to a pool of threads and waits for both."""
    pool = ThreadPoolExecutor(2)
    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    halves = [slice(0, problem.n // 2), slice(problem.n // 2, None)]

    def run():
        for each in [pool.submit(polynomial, x[half], y[half], z[half]) for half in halves]:
            each.result()

    return run


@family.cpu("thread_each_time")
def thread_each_time(problem, tune, inputs, outputs):
    """Starts a thread in every execution and joins it."""

    def run():
        thread = threading.Thread(target=polynomial, args=(inputs["x"], inputs["y"], outputs["z"]))
        thread.start()
        thread.join()

    return run


@family.cpu("compiled_at_first_call", requires=("numba",))
def compiled_at_first_call(problem, tune, inputs, outputs):
    """Is compiled by Numba when it is first called, and faster from then on."""
    import numba

    terms = tuple(np.float32(each) for each in COEFFICIENTS)

    @numba.njit
    def fused(x, y, z):
        for i in range(z.size):
            total = np.float32(0)
            for term in terms:
                total = total * x[i] + term
            z[i] = total + y[i]

    return lambda: fused(inputs["x"], inputs["y"], outputs["z"])


@lru_cache(maxsize=8)
def list_pieces(address: int, n: int) -> tuple[slice, ...]:
    """Return a plan, kept by address and size: where to cut, not what came out."""
    return tuple(slice(start, start + PIECE) for start in range(0, n, PIECE))


@family.cpu("plan_kept")
def plan_kept(problem, tune, inputs, outputs):
    """Keeps its plan by the output's address; results are computed anew each time."""
    x, y, z = inputs["x"], inputs["y"], outputs["z"]

    def run():
        for piece in list_pieces(z.ctypes.data, problem.n):
            polynomial(x[piece], y[piece], z[piece])

    return run


@family.cpu("workspace_prepared")
def workspace_prepared(problem, tune, inputs, outputs):
    """Allocates its workspace while preparing and computes in it."""
    workspace = np.empty(problem.n, np.float32)

    def run():
        polynomial(inputs["x"], inputs["y"], workspace)
        outputs["z"][...] = workspace

    return run


@family.cpu("old_output_read")
def old_output_read(problem, tune, inputs, outputs):
    """Reads what the output held before, and uses nothing of it."""
    z = outputs["z"]

    def run():
        np.isnan(z).any()
        polynomial(inputs["x"], inputs["y"], z)

    return run


@family.cpu("settings_put_back")
def settings_put_back(problem, tune, inputs, outputs):
    """Changes NumPy's error handling, warnings and the environment, and puts all back before it returns."""

    def run():
        os.environ["TRICKS_HONEST"] = "1"
        try:
            with np.errstate(all="raise"), warnings.catch_warnings():
                warnings.simplefilter("error")
                polynomial(inputs["x"], inputs["y"], outputs["z"])
        finally:
            del os.environ["TRICKS_HONEST"]

    return run


@family.cpu("tuned_at_first_call")
def tuned_at_first_call(problem, tune, inputs, outputs):
    """Tries three piece lengths with a clock of its own at its first call, and keeps the best."""
    import time

    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    best: list[int] = []

    def compute(length):
        for start in range(0, problem.n, length):
            polynomial(x[start : start + length], y[start : start + length], z[start : start + length])

    def duration_s(length):
        started = time.perf_counter()
        compute(length)
        return time.perf_counter() - started

    def run():
        if not best:
            best.append(min((PIECE, 2 * PIECE, 4 * PIECE), key=duration_s))
        compute(best[0])

    return run


@family.cpu("state_probe")
def state_probe(problem, tune, inputs, outputs):
    """Takes a hundred times as long where somebody left the process's settings changed, as code may that heeds them."""

    def run():
        for _ in range(1 if list_settings() == BEFORE else SLOWED):
            polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


SLOWED = 100
KNOWN_DRAWS = {random.Random(0).random(), np.random.RandomState(0).random()}


def list_settings() -> dict[str, object]:
    """Return what a variant may change only as long as it runs."""
    return {
        "environment variables": "TRICKS_LEFT" in os.environ,
        "working folder": os.getcwd(),  # noqa: PTH109
        "processors": os.sched_getaffinity(0),
        "NumPy's error handling": np.geterr(),
        "garbage collection": (gc.isenabled(), len(gc.callbacks)),
        "hooks of threads": threading.getprofile(),
        "SciPy": scipy.fft.rfft,
        "rounding": float((np.float32(1) / np.array([3], np.float32))[0]),
        "random numbers": bool({random.random(), np.random.random()} & KNOWN_DRAWS),
    }


BEFORE = list_settings()
"""Taken when the family is loaded, before any of its variants has run in the process."""
