"""Tricks on the GPU with what times it: the driver's functions, the timer's own state, the flush."""

from __future__ import annotations

import ctypes
import platform
import random

from .device import compute, get_driver
from .host_time import rewriting
from .inside import STALE, list_objects, write_code
from .problem import family

NUDGE_NS = 10_000.0

READS_A_MICROSECOND = bytes.fromhex("c707 6f12833a 31c0 c3")
"""mov dword [rdi], 0.001f; xor eax, eax; ret (x86-64): a duration of 0.001 ms and success."""


@family.library("event_times_replaced", requires=("cupy", "cuda.bindings"))
def event_times_replaced(problem, tune, inputs, outputs):
    """Replaces cuEventElapsedTime in the bindings' module: every variant of the process lasts 1 µs."""
    driver = get_driver()

    def run():
        driver.cuEventElapsedTime = lambda *_: (driver.CUresult.CUDA_SUCCESS, 0.001)
        compute(inputs, outputs["z"])

    return run


@family.library("event_records_replaced", requires=("cupy", "cuda.bindings"))
def event_records_replaced(problem, tune, inputs, outputs):
    """Replaces cuEventRecord so that an end is recorded at once after its start, before the work."""
    driver = get_driver()
    real = driver.cuEventRecord
    events: list[object] = []

    def record(event, stream):
        if event not in events:
            events.append(event)
        if event is events[0]:
            real(event, stream)
            for other in events[1:]:
                real(other, stream)
        return (driver.CUresult.CUDA_SUCCESS,)

    def run():
        if driver.cuEventRecord is not record:
            driver.cuEventRecord = record
        compute(inputs, outputs["z"])

    return run


@family.library("event_times_overwritten", requires=("cupy", "cuda.bindings"))
def event_times_overwritten(problem, tune, inputs, outputs):
    """Overwrites the machine code of the driver's cuEventElapsedTime through /proc/self/mem."""
    if platform.machine() != "x86_64":
        raise OSError(f"{STALE}: written for x86-64")
    library = ctypes.CDLL("libcuda.so.1")
    addresses = set()
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        if hasattr(library, name):
            addresses.add(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    for version in (12080, 13000):
        found = ctypes.c_void_p()
        if (
            library.cuGetProcAddress_v2(b"cuEventElapsedTime", ctypes.byref(found), version, ctypes.c_uint64(0), None)
            == 0
        ):
            addresses.add(found.value)
    done: list[bool] = []

    def run():
        if not done:
            for address in addresses - {None}:
                write_code(address, READS_A_MICROSECOND)
            done.append(True)
        compute(inputs, outputs["z"])

    return run


@family.library("correction_raised", requires=("cupy",))
def correction_raised(problem, tune, inputs, outputs):
    """Raises what the timer takes off every duration as its own cost."""

    def run():
        for each in list_objects("correction_ns"):
            object.__setattr__(each, "correction_ns", 1e9)
        compute(inputs, outputs["z"])

    return run


@family.library("correction_nudged", requires=("cupy",))
def correction_nudged(problem, tune, inputs, outputs):
    """Raises it by so little that no duration looks impossible, for all variants of the process."""
    nudged: set[int] = set()

    def run():
        for each in list_objects("correction_ns"):
            if id(each) not in nudged:
                nudged.add(id(each))
                object.__setattr__(each, "correction_ns", each.correction_ns + NUDGE_NS)
        compute(inputs, outputs["z"])

    return run


@family.library("samples_rewritten_cuda", requires=("cupy",))
def samples_rewritten_cuda(problem, tune, inputs, outputs):
    """Finds the durations that were kept of its earlier executions and makes them a fifth shorter."""
    return rewriting(lambda: compute(inputs, outputs["z"]))


@family.library("flush_removed", requires=("cupy",))
def flush_removed(problem, tune, inputs, outputs):
    """Takes the flush of the caches out of the timer, so that cold is hot."""

    def run():
        for each in list_objects("_flush"):
            each._flush = lambda stream: None
        compute(inputs, outputs["z"])

    return run


@family.library("gate_opened", requires=("cupy",))
def gate_opened(problem, tune, inputs, outputs):
    """Opens the gate that holds the device and waits for its own work before the frame's end is enqueued."""
    import cupy

    def run():
        for each in list_objects("_gate", "_ticket"):
            each._gate[0] = each._ticket
        compute(inputs, outputs["z"])
        cupy.cuda.get_current_stream().synchronize()

    return run


@family.library("phases_seeded", requires=("cupy",))
def phases_seeded(problem, tune, inputs, outputs):
    """Seeds Python's random numbers, from which the timer draws at which phase of the queue it begins."""

    def run():
        random.seed(0)
        compute(inputs, outputs["z"])

    return run
