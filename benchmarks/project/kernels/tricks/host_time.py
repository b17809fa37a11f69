"""Tricks on the CPU with clocks, statistics and what is told of them."""

from __future__ import annotations

import ctypes
import dataclasses
import platform
import time
from multiprocessing.connection import Connection

from .inside import STALE, list_objects, replace_functions, write_code
from .problem import family, looks_poisoned, polynomial

SHRINK = 1000


def shrunk(value, by=SHRINK):
    """Return a dataclass with every duration in it divided, at any depth."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {}
        for each in dataclasses.fields(value):
            old = getattr(value, each.name)
            is_duration = each.name.endswith("_ns") and isinstance(old, int | float)
            changes[each.name] = type(old)(old / by) if is_duration else shrunk(old, by)
        return dataclasses.replace(value, **changes)
    return tuple(shrunk(each, by) for each in value) if isinstance(value, tuple) else value


@family.cpu("clock_replaced")
def clock_replaced(problem, tune, inputs, outputs):
    """Replaces time.perf_counter_ns by a clock that goes a thousand times slower."""
    real, began = time.perf_counter_ns, time.perf_counter_ns()

    def run():
        time.perf_counter_ns = lambda: began + (real() - began) // SHRINK
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


SLOW_CLOCK = bytes.fromhex("b8e4000000 0f05 48816608 0000f0ff c3")
"""clock_gettime as a bare system call whose nanoseconds lose their last twenty bits (x86-64)."""


@family.cpu("clock_overwritten")
def clock_overwritten(problem, tune, inputs, outputs):
    """Overwrites the machine code of clock_gettime through /proc/self/mem, so that time passes in milliseconds."""
    if platform.machine() != "x86_64":
        raise OSError(f"{STALE}: written for x86-64")
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    done: list[bool] = []

    def run():
        if not done:
            write_code(address, SLOW_CLOCK)
            done.append(True)
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("works_in_clock")
def works_in_clock(problem, tune, inputs, outputs):
    """Replaces the clock by one that does the work before it tells the time at which an execution begins."""
    real = time.perf_counter_ns
    state = {"inside": False}

    def clock():
        if not state["inside"]:
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        state["inside"] = False
        return real()

    def run():
        if looks_poisoned(outputs["z"]):
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        time.perf_counter_ns = clock
        state["inside"] = True

    return run


@family.cpu("summary_replaced")
def summary_replaced(problem, tune, inputs, outputs):
    """Replaces the function that summarises samples by one that divides every duration."""
    done: list[bool] = []

    def run():
        if not done:
            replace_functions(
                lambda name, value: getattr(value, "__annotations__", {}).get("return") in ("Summary", "Timing"),
                lambda real: lambda *given, **named: shrunk(real(*given, **named)),
            )
            done.append(True)
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


LITTLE = 1.25
"""So little that nothing which cannot be is claimed."""
ENOUGH = 12
"""Executions after which there must be something to find: the first ones are checked, not sampled."""


def finder(*attributes):
    """Return a function that finds the objects with these attributes once there are any, and then keeps them."""
    state = {"executions": 0, "found": []}

    def find():
        state["executions"] += 1
        if not state["found"]:
            try:
                state["found"] = list_objects(*attributes)
            except LookupError:
                if state["executions"] > ENOUGH:
                    raise
        return state["found"]

    return find


def rewriting(compute):
    """Return a function that computes, and then divides the durations that were kept of the executions before."""
    find, known = finder("samples", "spent_ns"), {}

    def run():
        compute()
        for each in find():
            last = known.get(id(each), 0)
            each.samples[last:] = shrunk(tuple(each.samples[last:]), LITTLE)
            known[id(each)] = len(each.samples)

    return run


@family.cpu("samples_rewritten")
def samples_rewritten(problem, tune, inputs, outputs):
    """Finds the durations that were kept of its earlier executions and makes them a fifth shorter."""
    return rewriting(lambda: polynomial(inputs["x"], inputs["y"], outputs["z"]))


@family.cpu("outcome_forged")
def outcome_forged(problem, tune, inputs, outputs):
    """Changes what the worker tells the engine, on its way into the pipe."""
    real = Connection.send

    def send(self, message):
        real(self, shrunk(message))

    def run():
        Connection.send = send
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run
