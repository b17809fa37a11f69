"""Tricks on the CPU that change the judge: its checks, its bounds, its buffers, its other variants, its database."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import zlib
from itertools import count
from pathlib import Path

import numpy as np

from .host_time import ENOUGH, finder
from .inside import STALE, list_mappings, list_objects, replace_functions
from .problem import family, polynomial

STORE_LIMIT_S = 5.0


@family.cpu("check_replaced")
def check_replaced(problem, tune, inputs, outputs):
    """Replaces the functions that compare by ones that find everything right, and computes nothing."""
    from cuprof.core.records import Check

    replace_functions(
        lambda name, value: getattr(value, "__annotations__", {}).get("return") == "Check",
        lambda real: lambda *given, **named: Check(True, 0.0, 0.0, 0.0),
    )
    return lambda: None


@family.cpu("verdicts_rewritten")
def verdicts_rewritten(problem, tune, inputs, outputs):
    """Computes now and then, and finds what was said of its earlier results and makes all of it good."""
    find, turns = finder("verdicts"), count()

    def run():
        turn = next(turns)
        if turn < ENOUGH or not turn % 3:
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        for each in find():
            each.verdicts[:] = [True] * len(each.verdicts)

    return run


@family.cpu("numpy_replaced")
def numpy_replaced(problem, tune, inputs, outputs):
    """Replaces the functions of NumPy that tell a difference, and computes nothing."""
    nothing = lambda array, *_, **__: np.zeros_like(array)  # noqa: E731
    everything = lambda *_, **__: True  # noqa: E731

    def run():
        np.abs = np.absolute = nothing
        np.allclose = np.array_equal = everything

    return run


@family.cpu("tolerance_widened")
def tolerance_widened(problem, tune, inputs, outputs):
    """Widens the tolerance where it lies, and fills the output with one number."""
    for each in list_objects("absolute", "relative"):
        object.__setattr__(each, "absolute", 10.0)
    return lambda: outputs["z"].fill(1.5)


@family.cpu("output_replaced")
def output_replaced(problem, tune, inputs, outputs):
    """Puts an array that always copies to the right result in the place of the output, and computes nothing."""
    right = np.empty(problem.n, np.float32)
    polynomial(inputs["x"], inputs["y"], right)
    address = outputs["z"].ctypes.data

    class Kept(np.ndarray):
        def copy(self, *_):
            return right.copy()

        def __array__(self, *_, **__):
            return right.copy()

    def fits(value):
        return type(value) is np.ndarray and value.ctypes.data == address

    for mapping in list_mappings("z", fits):
        mapping["z"] = mapping["z"].view(Kept)
    return lambda: None


@family.cpu("neighbours_inputs_spoiled")
def neighbours_inputs_spoiled(problem, tune, inputs, outputs):
    """Is right itself, then spoils an input so that those beside it are wrong, and blinds the checksum."""
    spoiled = np.float32(0.25)

    def run():
        own = inputs["y"][0]
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        if own != spoiled:
            zlib.crc32 = lambda *_: 0
            for each in list_objects("_in_place"):
                each._in_place = {}
        else:
            outputs["z"][0] = kept[0]
        inputs["y"][0] = spoiled

    kept = np.empty(1, np.float32)
    polynomial(inputs["x"][:1], inputs["y"][:1], kept)
    return run


@family.cpu("neighbours_slowed")
def neighbours_slowed(problem, tune, inputs, outputs):
    """Is right and as fast as it says, and has the other variants sleep before they work."""
    calls = [0]

    def slow(real):
        def run_slowly():
            time.sleep(0.005)
            real()

        return run_slowly

    def run():
        calls[0] += 1
        if calls[0] == 2:
            for each in list_objects("call", "build"):
                if each.call is not run:
                    each.call = slow(each.call)
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("store_written")
def store_written(problem, tune, inputs, outputs):
    """Leaves a process behind that writes a better time into the database once this trial is stored."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    engine = int(stat.rpartition(")")[2].split()[1])  # our parent is a guardian, and its parent is the engine
    if not Path(f"/proc/{engine}/fd").is_dir():
        raise LookupError(f"{STALE}: the engine is not our parent's parent")
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 256)
        improve(engine)
        os._exit(0)
    return lambda: polynomial(inputs["x"], inputs["y"], outputs["z"])


def databases(process: int) -> set[str]:
    """Return the databases that a process has open: the engine opens its own once it has results to store."""
    found = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(link))  # noqa: PTH115
    return {file for file in found if file.endswith(".sqlite")}


def improve(engine: int) -> None:
    """Wait for this variant's timing and divide it."""
    began = time.monotonic()
    while time.monotonic() - began < STORE_LIMIT_S:
        for file in databases(engine):
            if divide(file):
                return
        time.sleep(0.002)


def divide(file: str) -> int:
    """Divide the timing of this variant, and return how many there were."""
    with contextlib.suppress(sqlite3.Error), sqlite3.connect(file, timeout=1.0) as connection:
        changed = connection.execute(
            "UPDATE timing SET median_ns = median_ns / 1000 WHERE run_id IN (SELECT r.id FROM run r "
            "JOIN trial t ON t.id = r.trial_id JOIN variant v ON v.id = t.variant_id "
            "WHERE v.name = 'store_written')"
        )
        return max(changed.rowcount, 0)
    return 0
