"""Variants on the CPU that compute honestly, and leave the process changed for those after them."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import threading
import time

import numpy as np

from .problem import family, polynomial

TOWARD_ZERO = 0xC00
"""FE_TOWARDZERO of x86-64."""


@family.cpu("numpy_errors_left")
def numpy_errors_left(problem, tune, inputs, outputs):
    """Leaves NumPy's error handling changed."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        np.seterr(all="raise")

    return run


@family.cpu("environment_left")
def environment_left(problem, tune, inputs, outputs):
    """Leaves an environment variable set and the working folder changed."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        os.environ["TRICKS_LEFT"] = "1"
        os.chdir("/")

    return run


@family.cpu("random_state_left")
def random_state_left(problem, tune, inputs, outputs):
    """Leaves the random generators of Python and NumPy at a known state."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        random.seed(0)
        np.random.seed(0)

    return run


@family.cpu("rounding_left")
def rounding_left(problem, tune, inputs, outputs):
    """Leaves the processor rounding toward zero."""
    library = ctypes.CDLL("libm.so.6")

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        library.fesetround(TOWARD_ZERO)

    return run


@family.cpu("thread_hooks_left")
def thread_hooks_left(problem, tune, inputs, outputs):
    """Leaves a hook that is set in every thread from now on, which none survives here."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        threading.setprofile(lambda *_: None)

    return run


@family.cpu("callbacks_left")
def callbacks_left(problem, tune, inputs, outputs):
    """Leaves a function that sleeps whenever garbage is collected."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        gc.callbacks.append(lambda *_: time.sleep(0.001))

    return run


@family.cpu("processors_left")
def processors_left(problem, tune, inputs, outputs):
    """Leaves the process bound to one processor."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    return run
