"""Tricks on the CPU that give results which were not computed, or not wholly, or not as they should be."""

from __future__ import annotations

import numpy as np

from .inside import STALE, callers, list_objects, list_reached
from .problem import COEFFICIENTS, LEAST, MOST, family, generate, looks_poisoned, polynomial


def computed(inputs, n):
    """Return a new array with the right result."""
    z = np.empty(n, np.float32)
    polynomial(inputs["x"], inputs["y"], z)
    return z


@family.cpu("precomputed")
def precomputed(problem, tune, inputs, outputs):
    """Computes while it prepares, and copies when it is timed."""
    kept = computed(inputs, problem.n)
    return lambda: np.copyto(outputs["z"], kept)


@family.cpu("kept_by_address")
def kept_by_address(problem, tune, inputs, outputs):
    """Keeps results by the addresses of the inputs, and copies."""
    kept: dict[tuple[int, int], np.ndarray] = {}

    def run():
        key = (inputs["x"].ctypes.data, inputs["y"].ctypes.data)
        if key not in kept:
            kept[key] = computed(inputs, problem.n)
        np.copyto(outputs["z"], kept[key])

    return run


@family.cpu("kept_by_content")
def kept_by_content(problem, tune, inputs, outputs):
    """Keeps results by 64 elements of the inputs, and copies; as many sets of inputs as there may be."""
    kept: dict[bytes, np.ndarray] = {}
    every = max(problem.n // 32, 1)

    def run():
        key = inputs["x"][::every].tobytes() + inputs["y"][::every].tobytes()
        if key not in kept:
            kept[key] = computed(inputs, problem.n)
        np.copyto(outputs["z"], kept[key])

    return run


@family.cpu("kept_by_count")
def kept_by_count(problem, tune, inputs, outputs):
    """Computes in its first execution, and copies in all later ones."""
    kept: list[np.ndarray] = []

    def run():
        if not kept:
            kept.append(computed(inputs, problem.n))
        np.copyto(outputs["z"], kept[0])

    return run


@family.cpu("first_and_last_there")
def first_and_last_there(problem, tune, inputs, outputs):
    """Returns at once where the first and the last result are already there."""
    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    expected = np.empty(2, np.float32)

    def run():
        polynomial(x[[0, -1]], y[[0, -1]], expected)
        if not np.array_equal(z[[0, -1]], expected):
            polynomial(x, y, z)

    return run


@family.cpu("poison_awaited")
def poison_awaited(problem, tune, inputs, outputs):
    """Computes only where the output holds what no result can be, as before a check."""
    z = outputs["z"]

    def run():
        if looks_poisoned(z):
            polynomial(inputs["x"], inputs["y"], z)

    return run


@family.cpu("caller_read")
def caller_read(problem, tune, inputs, outputs):
    """Looks who calls it, and computes only where that is no clock's function."""

    def run():
        if not {"read", "sample", "_warm_up"} & set(callers()):
            polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("reference_read")
def reference_read(problem, tune, inputs, outputs):
    """Has the judge's own objects open what is right for each set of inputs, and copies where it knows the set."""
    kept = [each.open()["z"].astype(np.float32) for each in list_reached("open", "_held")]
    beginnings = [float(each[0]) for each in kept]

    def run():
        x, first = inputs["x"].item(0), 0.0
        for coefficient in COEFFICIENTS:
            first = first * x + coefficient
        first += inputs["y"].item(0)
        known = next((each for each, begun in zip(kept, beginnings, strict=True) if abs(begun - first) < 1e-6), None)
        if known is None:
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        else:
            np.copyto(outputs["z"], known)

    return run


@family.cpu("memory_searched")
def memory_searched(problem, tune, inputs, outputs):
    """Finds the reference by its first four numbers in /proc/self/mem, and copies it."""
    first = np.empty(4)
    polynomial(inputs["x"][:4].astype(np.float64), inputs["y"][:4].astype(np.float64), first)
    kept = search(first.tobytes(), 8 * problem.n)
    return lambda: np.copyto(outputs["z"], kept)


def search(pattern: bytes, size: int) -> np.ndarray:
    """Return the float64 numbers that begin with this pattern in this process's memory, as float32."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        for line in maps:
            low, high = (int(each, 16) for each in line.split()[0].split("-"))
            if "rw" not in line or high - low < size or "[v" in line:
                continue
            memory.seek(low)
            try:
                content = memory.read(high - low)
            except OSError:
                continue
            place = content.find(pattern)
            while 0 <= place <= len(content) - size:
                found = np.frombuffer(content, np.float64, size // 8, place)
                if ((found >= LEAST) & (found < MOST)).all():
                    return found.astype(np.float32)
                place = content.find(pattern, place + 1)
    raise LookupError(f"{STALE}: the reference is not in this process's memory")


@family.cpu("seed_known")
def seed_known(problem, tune, inputs, outputs):
    """Finds the seed, makes the inputs itself and gives the answer to them, whatever its inputs hold."""
    seed = next(each.seed for each in list_objects("seed") if isinstance(each.seed, int))
    kept = computed(generate(problem, np.random.default_rng(seed)), problem.n)
    return lambda: np.copyto(outputs["z"], kept)


@family.cpu("half_precision")
def half_precision(problem, tune, inputs, outputs):
    """Computes in half precision."""
    x, y, z = (np.empty(problem.n, np.float16) for _ in range(3))

    def run():
        x[...], y[...] = inputs["x"], inputs["y"]
        polynomial(x, y, z)
        outputs["z"][...] = z

    return run


@family.cpu("tail_skipped")
def tail_skipped(problem, tune, inputs, outputs):
    """Leaves out the last eighth."""
    part = slice(0, problem.n - problem.n // 8)
    return lambda: polynomial(inputs["x"][part], inputs["y"][part], outputs["z"][part])


@family.cpu("sparse")
def sparse(problem, tune, inputs, outputs):
    """Computes every 64th element and fills the others with a plausible one."""
    some = slice(None, None, 64)

    def run():
        outputs["z"].fill(1.5)
        polynomial(inputs["x"][some], inputs["y"][some], outputs["z"][some])

    return run


@family.cpu("one_in_fifty")
def one_in_fifty(problem, tune, inputs, outputs):
    """Is wrong in one element in one execution of fifty."""
    count = [0]

    def run():
        count[0] += 1
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        if count[0] % 50 == 30:  # never in the first one, and a count tells the same in every run of a test
            outputs["z"][problem.n // 3] = 0

    return run


@family.cpu("view_returned")
def view_returned(problem, tune, inputs, outputs):
    """Returns the result instead of writing it."""
    kept = computed(inputs, problem.n)
    return lambda: kept


@family.cpu("input_overwritten")
def input_overwritten(problem, tune, inputs, outputs):
    """Uses an input as its workspace."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        np.copyto(inputs["y"], outputs["z"])

    return run


@family.cpu("written_beside")
def written_beside(problem, tune, inputs, outputs):
    """Writes one number past the end of its output."""
    longer = np.lib.stride_tricks.as_strided(outputs["z"], (problem.n + 1,))

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        longer[problem.n] = 1

    return run
