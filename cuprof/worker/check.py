"""Compare a result with its reference."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np

from cuprof.core.processes import count_cores
from cuprof.core.records import Check
from cuprof.families import Arrays, Tolerance, Tolerances

CHUNK = 1 << 17
"""Compare this many elements at a time, so that the intermediate arrays stay in the processor's cache."""
MANY, MOST_SHARERS = 1 << 19, 16
"""From `MANY` elements on, compare chunks in up to `MOST_SHARERS` threads; NumPy's loops release the GIL."""
NOT_LOOKED_AT = -np.inf
"""The absolute bound of an element that a variant need not write, and that may hold a NaN."""
DRAWN = 64, 4096
"""The number of values that `tells_wrong` draws: at least the first, fewer than the second."""


def check_tolerance(tolerance: object, where: str, outputs: Collection[str] = ()) -> None:
    """Raise ValueError for an unusable tolerance: not a `Tolerance`, one missing, NaN, or a negative bound.

    Args:
        outputs: outputs with a reference, or their fields. If `tolerance` is a mapping, it must have an entry for each.
    """
    if isinstance(tolerance, Mapping):
        for name, each in tolerance.items():
            if name not in {*outputs, *(output.partition(".")[0] for output in outputs)}:
                raise ValueError(f"{where} names {name}, which has no reference; there are {', '.join(outputs)}")
            check_tolerance(each, f"{where} of {name}")
        absent = [output for output in outputs if not tolerance.keys() & {output, output.partition(".")[0]}]
        if absent:
            raise ValueError(f"{where} gave none for {', '.join(absent)}")
        return
    if not isinstance(tolerance, Tolerance):
        raise ValueError(
            f"{where} gave a {type(tolerance).__name__}, and must give a Tolerance, or one for each output"
        )
    for name in ("absolute", "relative"):
        bounds = np.asarray(getattr(tolerance, name))
        if bounds.size and not bool((bounds >= 0).all()):
            raise ValueError(f"{where} has a negative or undefined {name} bound")


def tells_wrong() -> bool:
    """Return whether `compare` accepts a right result and rejects a wrong one, on freshly drawn numbers.

    Code patched in memory, by address, leaves every function and constant as it was. Only its results give it away.
    """
    rng = np.random.default_rng(secrets.randbits(64))
    right = 1 + rng.random(int(rng.integers(*DRAWN)))
    place, factor = int(rng.integers(right.size)), rng.choice([-1.0, 0.5, 2.0])
    wrong = np.where(np.arange(right.size) == place, factor * right, right)
    held_to = Tolerance(relative=1e-6, reason="a test of the comparison itself")
    passed = [compare({"y": each.astype(np.float32)}, {"y": right}, held_to).passed for each in (right, wrong)]
    return passed == [True, False]


def compare(outputs: Arrays, reference: Arrays, tolerance: Tolerances, seed: int = 0) -> Check:
    """Return whether every output lies within its tolerance, with the largest error.

    NaN never passes, even if the reference has it too. An infinity passes if the reference has the same one. A
    tolerance that is NaN or negative passes nothing; `NOT_LOOKED_AT` passes everything.

    Args:
        outputs: the variant's results, host arrays by name.
        reference: the right results, float64 or exact integers, with the same names and shapes.
        tolerance: how far apart they may be.
        seed: seed of the inputs, kept in the record.
    """
    worst = Check(True, 0.0, 0.0, 0.0, seed=seed)
    for name, expected in reference.items():
        if name not in outputs:
            return Check(False, np.inf, np.inf, np.inf, f"output {name} was not produced", seed)
        held_to = Tolerance.of(tolerance, name)
        found = _compare_one(name, np.asarray(outputs[name]), np.asarray(expected), held_to, seed)
        if not found.passed or (worst.passed and found.error >= worst.error):
            worst = found
        if not worst.passed:
            break
    return worst


def _compare_one(name: str, output: np.ndarray, expected: np.ndarray, tolerance: Tolerance, seed: int) -> Check:
    if output.shape != expected.shape:
        message = f"output {name} has shape {output.shape}, expected {expected.shape}"
        return Check(False, np.inf, np.inf, np.inf, message, seed)
    if output.size == 0:
        return Check(True, 0.0, 0.0, 0.0, seed=seed)
    flat_output, flat_expected = output.reshape(-1), expected.reshape(-1)
    bounds = np.asarray(tolerance.absolute)
    flat_bounds = np.broadcast_to(bounds, expected.shape).reshape(-1) if bounds.ndim else None

    def examine(starts: Sequence[int]) -> list[_Part]:
        room, found = np.empty((4, min(CHUNK, output.size))), list[_Part]()
        for start in starts:
            chunk = slice(start, start + CHUNK)
            absolute = bounds if flat_bounds is None else flat_bounds[chunk]
            found.append(_examine(flat_output[chunk], flat_expected[chunk], absolute, tolerance.relative, room))
        return found

    starts = range(0, output.size, CHUNK)
    sharers = min(len(starts), count_cores(), MOST_SHARERS) if output.size >= MANY else 1
    if sharers == 1:
        parts = examine(starts)
    else:
        shares = [starts[len(starts) * i // sharers : len(starts) * (i + 1) // sharers] for i in range(sharers)]
        with ThreadPoolExecutor(sharers) as pool:
            parts = [*chain.from_iterable(pool.map(examine, shares))]
    number = int(np.argmax([part.error for part in parts]))
    worst, place = parts[number], number * CHUNK + parts[number].place
    norm, distance = (_norm(np.array([getattr(part, of) for part in parts])) for of in ("norm", "distance"))
    relative = distance / norm if norm else (0.0 if distance == 0 else float("inf"))
    passed = worst.error <= 1.0
    message = ""
    if not passed:
        index = ",".join(map(str, np.unravel_index(place, output.shape)))
        message = (
            f"{name}[{index}] = {flat_output[place]!s}, expected {flat_expected[place]!s} ± {worst.allowed:.3g} "
            f"({tolerance.reason}); {sum(part.wrong for part in parts)} of {output.size} elements are wrong"
        )
    return Check(passed, worst.error, max(part.largest for part in parts), relative, message, seed)


@dataclass(frozen=True)
class _Part:
    """The comparison of some elements: the worst one's place, error and bound, and the totals over those that count."""

    place: int
    error: float
    allowed: float
    wrong: int
    largest: float
    distance: float
    norm: float


def _examine(
    output: np.ndarray, expected: np.ndarray, absolute: np.ndarray, relative: float, room: np.ndarray
) -> _Part:
    found = _examine_finite(output, expected, absolute, relative, room[:, : output.size])
    return found or _examine_any(output, expected, absolute, relative)


def _examine_finite(
    output: np.ndarray, expected: np.ndarray, absolute: np.ndarray, relative: float, room: np.ndarray
) -> _Part | None:
    """Examine elements in a fifth of the time; None for non-finite values, wider types or negative bounds.

    Args:
        room: four rows of float64 as workspace, since allocating takes longer than the arithmetic.
    """
    if not all(
        each.kind in "fiub" and (each.itemsize <= 4 or each == np.float64) for each in (output.dtype, expected.dtype)
    ):
        return None
    difference, magnitude, allowed, error = room
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(output, expected, out=difference, dtype=np.float64)
        np.abs(difference, out=difference)
        np.abs(expected, out=magnitude, dtype=np.float64)
        np.multiply(magnitude, relative, out=allowed)
        allowed += absolute
    if not (np.isfinite(np.max(difference)) and np.min(allowed) >= 0):
        return None
    if np.isinf(np.max(allowed)):  # an infinite tolerance leaves an element out
        free = np.isinf(allowed)
        difference[free] = magnitude[free] = 0.0
    place, worst, wrong, largest = 0, 0.0, 0, float(np.max(difference))
    if largest:
        error.fill(0.0)
        with np.errstate(divide="ignore", over="ignore"):
            np.divide(difference, allowed, out=error, where=difference != 0)
        place = int(np.argmax(error))
        worst, wrong = float(error[place]), int(np.count_nonzero(error > 1.0))
    return _Part(
        place=place,
        error=worst,
        allowed=float(allowed[place]),
        wrong=wrong,
        largest=largest,
        distance=_norm(difference, error) if largest else 0.0,
        norm=_norm(magnitude, error),
    )


def _examine_any(output: np.ndarray, expected: np.ndarray, absolute: np.ndarray, relative: float) -> _Part:
    difference, magnitude = _difference(output, expected), np.abs(_widened(expected))
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    allowed = np.broadcast_to(absolute + relative * finite, expected.shape)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.where(difference == 0, 0.0, difference / allowed)
    error = np.where(np.isnan(error) | ~(allowed >= 0), np.inf, error)
    error = np.where(allowed == NOT_LOOKED_AT, 0.0, error)
    place = int(np.argmax(error))
    counted = ~np.isinf(allowed)
    difference, magnitude = difference[counted], magnitude[counted]
    return _Part(
        place=place,
        error=float(error[place]),
        allowed=float(allowed[place]),
        wrong=int(np.count_nonzero(~(error <= 1.0))),
        largest=float(np.max(difference, initial=0.0)),
        distance=_norm(difference),
        norm=_norm(magnitude),
    )


def _difference(output: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |output - expected| in float64: 0 for the same infinity; of integers the exact one, rounded once."""
    wide_output, wide_expected = _widened(output), _widened(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.asarray(np.where(wide_output == wide_expected, 0.0, np.abs(wide_output - wide_expected)))
    if output.dtype.kind not in "iub" or expected.dtype.kind not in "iub":
        return rounded
    one, other = output.astype(np.uint64), expected.astype(np.uint64)  # modulo 2^64, and so are their differences
    exact = np.where(output > expected, one - other, other - one).astype(np.float64)
    return np.asarray(np.where(rounded < 2.0**63, exact, rounded))


def _norm(values: np.ndarray, room: np.ndarray | None = None) -> float:
    """Return the Euclidean norm; scaled, since squares of large values overflow, into the room where that is given."""
    largest = float(np.max(values, initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return largest
    scaled = np.divide(values.ravel(), largest, out=room)
    return largest * float(np.sqrt(np.einsum("i,i", scaled, scaled)))  # not BLAS: its threads cost more than they give


def _widened(array: np.ndarray) -> np.ndarray:
    wide: np.ndarray = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return wide
