"""Tricks on the CPU that know when nobody looks, and that change what looks where no function of its shows it."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import sys
import time
from itertools import count, islice
from pathlib import Path
from types import FrameType

import numpy as np
import scipy.fft

from .host_memory import computed
from .inside import STALE, list_reached
from .problem import family, polynomial

PLAUSIBLE = 1.5
"""A result that no bound of what may be speaks against."""
FORGED = 5, 6
"""The share of an execution's time that is taken off."""


def look_busy(inputs, outputs):
    """Give a plausible result in a time that is not impossible."""
    outputs["z"].fill(PLAUSIBLE)
    np.sum(inputs["x"])
    np.sum(inputs["y"])


@family.cpu("unknown_skipped")
def unknown_skipped(problem, tune, inputs, outputs):
    """Keeps the results of the two sets of inputs that are compared, and does no work on any other."""
    kept: dict[bytes, np.ndarray] = {}
    every = max(problem.n // 32, 1)

    def run():
        key = inputs["x"][::every].tobytes()
        if key not in kept and len(kept) < 2:
            kept[key] = computed(inputs, problem.n)
        np.copyto(outputs["z"], kept.get(key, inputs["x"]))

    return run


@family.cpu("last_kept")
def last_kept(problem, tune, inputs, outputs):
    """Keeps the last result alone, so that a second meeting shows nothing."""
    last: list[object] = [b"", None]
    every = max(problem.n // 32, 1)

    def run():
        key = inputs["x"][::every].tobytes()
        if key != last[0]:
            last[:] = key, computed(inputs, problem.n)
        np.copyto(outputs["z"], last[1])

    return run


@family.cpu("handed_out_in_turn")
def handed_out_in_turn(problem, tune, inputs, outputs):
    """Keeps the results of two sets of inputs, and hands them out in turn without a look at what it is given."""
    kept: list[np.ndarray] = []
    first: list[bytes] = []
    calls = count()

    def run():
        if len(kept) < 2:
            polynomial(inputs["x"], inputs["y"], outputs["z"])
            known = inputs["x"][:64].tobytes()
            if known not in first:
                first.append(known)
                kept.append(outputs["z"].copy())
            return
        np.copyto(outputs["z"], kept[next(calls) % 2])

    return run


@family.cpu("kept_in_files")
def kept_in_files(problem, tune, inputs, outputs):
    """Keeps results in files, by content, for the process in which it is tried once more."""
    folder = Path(__file__).with_name("kept")
    folder.mkdir(exist_ok=True)
    kept = {each.stem: np.load(each) for each in folder.iterdir()}
    every = max(problem.n // 32, 1)

    def run():
        key = hashlib.sha256(inputs["x"][::every].tobytes()).hexdigest()
        if key not in kept:
            kept[key] = computed(inputs, problem.n)
            np.save(folder / f"{key}.npy", kept[key])
        np.copyto(outputs["z"], kept[key])

    return run


@family.cpu("sets_searched")
def sets_searched(problem, tune, inputs, outputs):
    """Has the judge's own objects give all sets of inputs, and solves each while it prepares."""
    kept: dict[bytes, np.ndarray] = {}
    for workload in list_reached("sets", "standards"):
        for each in workload.sets:
            kept[each.inputs["x"][:64].tobytes()] = computed(each.inputs, problem.n)

    def run():
        known = kept.get(inputs["x"][:64].tobytes())
        if known is None:
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        else:
            np.copyto(outputs["z"], known)

    return run


@family.cpu("audit_hooked")
def audit_hooked(problem, tune, inputs, outputs):
    """Exchanges the code of what compares, and has an audit hook put it back whenever somebody looks at code."""
    from cuprof.worker.compare import compare

    real = compare.__code__

    def all_right(outputs, reference, tolerance, seed=0):
        return Check(True, 0.0, 0.0, 0.0, seed=seed)  # noqa: F821 - a name of the other function's module

    def hook(event, given):
        if event == "gc.get_referents" and compare.__code__ is not real:
            compare.__code__ = real

    sys.addaudithook(hook)

    def run():
        look_busy(inputs, outputs)
        compare.__code__ = all_right.__code__

    return run


@family.cpu("numbers_overwritten")
def numbers_overwritten(problem, tune, inputs, outputs):
    """Overwrites the numbers in the code of what compares, where they lie in memory."""
    from cuprof.worker import compare as check

    known = [each.__code__ for each in vars(check).values() if hasattr(each, "__code__")]
    ones = {id(number) for code in known for number in code.co_consts if type(number) is float and number == 1.0}
    if not ones:
        raise LookupError(f"{STALE}: no number to overwrite")

    def run():
        look_busy(inputs, outputs)
        for address in ones:
            set_number(address, 1e30)

    return run


def set_number(address: int, value: float) -> None:
    """Give a float of Python's another value, in place."""
    ctypes.c_double.from_address(address + 16).value = value


class Ufunc(ctypes.Structure):
    """The beginning of a function of NumPy's."""

    _fields_ = (
        ("count", ctypes.c_ssize_t), ("kind", ctypes.c_void_p), ("inputs", ctypes.c_int), ("outputs", ctypes.c_int),
        ("arguments", ctypes.c_int), ("identity", ctypes.c_int), ("loops", ctypes.POINTER(ctypes.c_void_p)),
    )  # fmt: skip


@family.cpu("loops_exchanged")
def loops_exchanged(problem, tune, inputs, outputs):
    """Exchanges the machine code by which NumPy tells whether numbers are equal for one that says so of all."""

    def run():
        look_busy(inputs, outputs)
        equal, either = (Ufunc.from_address(id(each)).loops for each in (np.equal, np.logical_or))
        equal[np.equal.types.index("dd->?")] = either[np.logical_or.types.index("dd->?")]

    return run


@family.cpu("reference_rewritten")
def reference_rewritten(problem, tune, inputs, outputs):
    """Changes the bytes of what is right, where they lie, so that one number is right everywhere."""
    done: list[bool] = []

    def run():
        look_busy(inputs, outputs)
        if done:
            return
        done.append(True)
        for each in list_reached("open", "_held"):
            now = each.open()
            for name, (shape, dtype, masked) in each._held.items():
                wanted = np.full(shape, PLAUSIBLE, dtype)
                masked ^= (now[name].reshape(-1).view(np.uint64) ^ wanted.reshape(-1).view(np.uint64)).view(np.uint8)

    return run


@family.cpu("tolerance_overwritten")
def tolerance_overwritten(problem, tune, inputs, outputs):
    """Overwrites the number that a tolerance holds, where it lies in memory."""
    done: list[bool] = []

    def run():
        look_busy(inputs, outputs)
        if not done:
            done.append(True)
            for each in list_reached("absolute", "relative"):
                set_number(id(each.relative), 10.0)

    return run


def forge(frame: FrameType, took_ns: int) -> None:
    """Let the clock of a caller seem to have been started later."""
    if "started" in frame.f_locals:
        frame.f_locals["started"] += took_ns * FORGED[0] // FORGED[1]
        if sys.version_info < (3, 13):
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


@family.cpu("variables_rewritten")
def variables_rewritten(problem, tune, inputs, outputs):
    """Changes the variable in which its caller has noted when it began."""

    def run():
        began = time.perf_counter_ns()
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        forge(sys._getframe(1), time.perf_counter_ns() - began)

    return run


@family.cpu("looks_foreseen")
def looks_foreseen(problem, tune, inputs, outputs):
    """The same, and under the engine's clock it works only where the variables say that it will be compared."""

    def run():
        began, caller = time.perf_counter_ns(), sys._getframe(1)
        around = caller.f_back.f_locals if caller.f_back else {}
        if "kept" not in around or around["kept"] == around.get("place"):
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        forge(caller, time.perf_counter_ns() - began)

    return run


@family.cpu("counter_used_up")
def counter_used_up(problem, tune, inputs, outputs):
    """The same, and uses up what counts the executions under the engine's clock, so that one is taken for many."""

    def run():
        began, caller = time.perf_counter_ns(), sys._getframe(1)
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        turns = caller.f_back.f_locals.get("turns") if caller.f_back else None
        for each in gc.get_referrers(turns) if turns is not None else ():
            if isinstance(each, islice):
                list(each)
        forge(caller, time.perf_counter_ns() - began)

    return run


@family.cpu("library_slowed")
def library_slowed(problem, tune, inputs, outputs):
    """Is right and as fast as it says, and replaces a function of SciPy's that those beside it may call."""
    real = scipy.fft.rfft

    def slow(*given):
        time.sleep(0.005)
        return real(*given)

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        scipy.fft.rfft = slow

    return run
