"""Tricks on the CPU that exchange what stands behind the judge's functions: classes, bases, and what it is built on."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import queue
import random
import sys
import time
from types import FunctionType, ModuleType

import numpy as np

from .host_unseen import forge, look_busy
from .inside import STALE
from .problem import family, polynomial

MANY = 4096
"""What compares is tried on fewer numbers than that."""


@family.cpu("module_class_exchanged")
def module_class_exchanged(problem, tune, inputs, outputs):
    """Gives NumPy's module another class, by which a name of it stands for something else, of large arrays."""
    real = np.max

    def largest(array, *given, **named):
        return real(array, *given, **named) if getattr(array, "size", 0) <= MANY else np.float64(0)

    class Sly(ModuleType):
        def __getattribute__(self, name):
            return largest if name == "max" else ModuleType.__getattribute__(self, name)

    def run():
        look_busy(inputs, outputs)
        np.__class__ = Sly

    return run


@family.cpu("bases_exchanged")
def bases_exchanged(problem, tune, inputs, outputs):
    """Gives the session's class another base, whose methods say that each result is right."""
    from cuprof.backends.contract import Session, Tally
    from cuprof.backends.cpu.backend import CpuSession
    from cuprof.core.records import Check

    class Sly(Session):
        def check_in_place(self, runnable, tolerance, seed):
            return Check(True, 0.0, 0.0, 0.0, seed=seed)

        def expect(self, runnable, tolerances):
            return lambda: Tally(240, 0)

    def run():
        look_busy(inputs, outputs)
        CpuSession.__bases__ = (Sly,)

    return run


@family.cpu("type_changed")
def type_changed(problem, tune, inputs, outputs):
    """Exchanges a method of NumPy's arrays in the dictionary of their class, so that what was found is right."""
    (methods,) = gc.get_referents(np.ndarray.__dict__)
    real, last = methods["reshape"], [np.empty(0)]

    def reshape(self, *shape, **named):
        flat = real(self, *shape, **named)
        if flat.size == problem.n and flat.dtype == np.float32:
            last[0] = flat
        return last[0].astype(np.float64) if flat.shape == last[0].shape and flat.dtype == np.float64 else flat

    def run():
        look_busy(inputs, outputs)
        if methods["reshape"] is real:
            methods["reshape"] = reshape
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(np.ndarray))

    return run


@family.cpu("chance_by_class")
def chance_by_class(problem, tune, inputs, outputs):
    """Changes the class behind the chance, so that the first execution under the engine's clock is what is compared."""

    def run():
        began, caller = time.perf_counter_ns(), sys._getframe(1)
        around = caller.f_back.f_locals if caller.f_back else {}
        if "kept" in around:
            random.SystemRandom.getrandbits = lambda self, count: int(count > 1)
        if not around.get("place"):
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        forge(caller, time.perf_counter_ns() - began)

    return run


@family.cpu("compared_late")
def compared_late(problem, tune, inputs, outputs):
    """Is right, and replaces what compares when it is timed no more, so that whoever comes next is blamed."""
    from cuprof.worker import problem as workload

    def say_right(outputs, reference, tolerance, seed=0):
        return dataclasses.replace(right[0], seed=seed)

    right = [workload.Check(True, 0.0, 0.0, 0.0)]

    def run():
        caller = sys._getframe(1).f_back
        if caller and "kept" in caller.f_locals:
            workload.compare = say_right
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("ending_renamed")
def ending_renamed(problem, tune, inputs, outputs):
    """Gives bad endings the name of the good one."""
    from cuprof.core.records import State

    def run():
        look_busy(inputs, outputs)
        for each in (State.WRONG_RESULT, State.IMPLAUSIBLE):
            each._value_ = State.OK.value

    return run


@family.cpu("queue_replaced")
def queue_replaced(problem, tune, inputs, outputs):
    """Replaces the queue by which threads that compare are given their work; each finds that all is right."""
    from cuprof.worker import compare as check

    if not hasattr(check, "_Part"):
        raise LookupError(f"{STALE}: nothing that a thread finds")
    real = queue.SimpleQueue

    class Sly:
        def __init__(self):
            self.inner = real()

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def put(self, item):
            if getattr(getattr(item, "fn", None), "__name__", "") == "examine":
                item.fn = lambda starts: [check._Part(0, 0.0, 1.0, 0, 0.0, 0.0, 1.0) for _ in starts]
            self.inner.put(item)

    def run():
        look_busy(inputs, outputs)
        queue.SimpleQueue = Sly

    return run


@family.cpu("damage_unsaid")
def damage_unsaid(problem, tune, inputs, outputs):
    """Overwrites an input, and exchanges the code of the library's function by which a check is called failed."""
    real = dataclasses.replace
    copy = FunctionType(real.__code__, real.__globals__)

    def replace(obj, /, **changes):
        return obj if changes.get("passed") is False else unchanged(obj, **changes)  # noqa: F821 - put there below

    real.__globals__["unchanged"] = copy

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        inputs["x"][-1] = 0.25
        real.__code__ = replace.__code__

    return run
