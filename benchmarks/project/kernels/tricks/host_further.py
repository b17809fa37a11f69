"""Tricks on the CPU of further kinds: ahead of the clock, by the clock's rate, and when somebody looks."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

import numpy as np

from cuprof.families import Call

from .inside import STALE
from .problem import family, polynomial


@family.cpu("works_ahead")
def works_ahead(problem, tune, inputs, outputs):
    """Has a thread compute as soon as new inputs are there, while the caches are emptied, and copies the result."""
    ready, known = np.empty(problem.n, np.float32), [b""]
    every = max(problem.n // 64, 1)

    def read_marks():
        return inputs["x"][::every].tobytes() + inputs["y"][-1:].tobytes()

    def work():
        while True:
            marks = read_marks()
            if marks != known[0]:
                polynomial(inputs["x"], inputs["y"], ready)
                known[0] = marks
            time.sleep(5e-5)

    threading.Thread(target=work, daemon=True).start()

    def run():
        if known[0] == read_marks():
            np.copyto(outputs["z"], ready)
        else:
            polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


SLOWER = 6


@family.cpu("clock_slowed")
def clock_slowed(problem, tune, inputs, outputs):
    """Slows the clock down while it is timed, and has a thread put the right one back before anybody looks."""
    module = next((each for name, each in sys.modules.items() if name.endswith("backends.cpu.backend")), None)
    if module is None or "perf_counter_ns" not in vars(module):
        raise LookupError(f"{STALE}: no clock of the session's")
    real, given = module.perf_counter_ns, threading.Event()

    def put_back():
        while given.wait():
            given.clear()
            time.sleep(3e-4)
            module.perf_counter_ns = real

    threading.Thread(target=put_back, daemon=True).start()

    def run():
        began = real()
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        module.perf_counter_ns = lambda: began + (real() - began) // SLOWER
        given.set()

    return run


@family.cpu("put_later")
def put_later(problem, tune, inputs, outputs):
    """Computes in what brings results to where they are compared, which nobody times."""
    return Call(
        lambda: np.copyto(outputs["z"], inputs["x"]), lambda _: polynomial(inputs["x"], inputs["y"], outputs["z"])
    )


class Handler(ctypes.Structure):
    """What NumPy asks for the memory of arrays."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


SET_HANDLER, GET_HANDLER = 304, 305
ALLOCATE = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


@family.cpu("allocation_hooked")
def allocation_hooked(problem, tune, inputs, outputs):
    """Computes when NumPy asks for the memory of a copy of the result, as by whoever compares it."""
    python = ctypes.pythonapi
    python.PyCapsule_GetPointer.restype, python.PyCapsule_New.restype = ctypes.c_void_p, ctypes.py_object
    python.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
    python.PyCapsule_New.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    table = ctypes.cast(
        python.PyCapsule_GetPointer(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER])
    get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(table[GET_HANDLER])
    mine = Handler.from_buffer_copy(Handler.from_address(python.PyCapsule_GetPointer(get_handler(), b"mem_handler")))
    usual, due = ALLOCATE(mine.malloc), [False]
    size, scratch = outputs["z"].nbytes, np.empty(problem.n, np.float32)

    def allocate(context, count):
        if due[0] and count == size:
            due[0] = False
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        return usual(context, count)

    kept.append(hook := ALLOCATE(allocate))
    mine.malloc = ctypes.cast(hook, ctypes.c_void_p).value
    kept.append(mine)
    kept.append(capsule := python.PyCapsule_New(ctypes.addressof(mine), b"mem_handler", None))

    def run():
        if not due[0]:
            set_handler(capsule)
        due[0] = True
        np.add(inputs["x"], inputs["y"], out=scratch)  # what takes no time at all is believed by nobody
        np.multiply(scratch, inputs["y"], out=scratch)

    return run


kept: list[object] = []
"""What the library goes on using, for as long as the process lives."""


@family.cpu("executor_hollow")
def executor_hollow(problem, tune, inputs, outputs):
    """Replaces what hands work to threads by something that does none of it."""
    from concurrent.futures import Future, ThreadPoolExecutor

    def submit(self, function, /, *arguments, **named):
        done = Future()
        done.set_result(None)
        return done

    def run():
        ThreadPoolExecutor.submit = submit
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run
