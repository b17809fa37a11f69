"""Compare a result with its reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from cuprof.core.processes import count_cores
from cuprof.core.records import Check
from cuprof.families import Arrays, Tolerance, Tolerances

CHUNK = 1 << 17
"""Compare this many elements at a time, so that the intermediate arrays stay in the processor's cache."""
MOST_SHARERS = 16
"""Compare chunks in up to this many threads; NumPy's loops release the GIL."""
WIDE = "gG"
"""Letters of the types that are wider than float64 and complex128."""
NOT_LOOKED_AT = -np.inf
"""The absolute bound of an element that a variant need not write, and that may hold a NaN."""


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
        if not found.passed or found.error >= worst.error:
            worst = found
        if not worst.passed:
            break
    return worst


def _compare_one(name: str, output: np.ndarray, expected: np.ndarray, tolerance: Tolerance, seed: int) -> Check:
    if output.shape != expected.shape:
        message = f"output {name} has shape {output.shape}, expected {expected.shape}"
        return Check(False, np.inf, np.inf, np.inf, message, seed)
    if output.dtype == bool:  # what nobody wrote is a byte that is neither 0 nor 1, which NumPy takes for True
        output = np.ascontiguousarray(output).view(np.uint8)
    if output.size == 0:
        return Check(True, 0.0, 0.0, 0.0, seed=seed)
    flat_output, flat_expected = output.reshape(-1), expected.reshape(-1)
    bounds = np.broadcast_to(np.asarray(tolerance.absolute), expected.shape)
    flat_bounds = bounds.reshape(-1) if np.ndim(tolerance.absolute) else np.broadcast_to(bounds.flat[0], expected.size)

    def examine(start: int) -> _Part:
        chunk = slice(start, start + CHUNK)
        return _examine(flat_output[chunk], flat_expected[chunk], flat_bounds[chunk], tolerance.relative)

    starts = range(0, output.size, CHUNK)
    sharers = min(len(starts), count_cores(), MOST_SHARERS)
    if sharers == 1:
        parts = [*map(examine, starts)]
    else:
        with ThreadPoolExecutor(sharers) as pool:
            parts = [*pool.map(examine, starts)]
    return _make_check(name, output, expected, tolerance, parts, seed)


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


def _make_check(
    name: str, output: np.ndarray, expected: np.ndarray, tolerance: Tolerance, parts: Sequence[_Part], seed: int
) -> Check:
    number = int(np.argmax([part.error for part in parts]))
    worst, place = parts[number], number * CHUNK + parts[number].place
    norm, distance = (_norm(np.array([getattr(part, of) for part in parts])) for of in ("norm", "distance"))
    relative = distance / norm if norm else (0.0 if distance == 0 else float("inf"))
    message = ""
    if not worst.error <= 1.0:
        index = ",".join(map(str, np.unravel_index(place, output.shape)))
        message = (
            f"{name}[{index}] = {output.flat[place]!s}, expected {expected.flat[place]!s} ± {worst.allowed:.3g} "
            f"({tolerance.reason}); {sum(part.wrong for part in parts)} of {output.size} elements are wrong"
        )
    return Check(not message, worst.error, max(part.largest for part in parts), relative, message, seed)


def _examine(output: np.ndarray, expected: np.ndarray, absolute: np.ndarray, relative: float) -> _Part:
    difference, magnitude = _difference(output, expected), np.abs(_widened(expected))
    allowed = np.where(np.isfinite(magnitude), magnitude, 0.0)
    allowed *= relative
    allowed += absolute
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.divide(difference, allowed, out=np.zeros_like(difference), where=difference != 0)
    error[~(error >= 0) | ~(allowed >= 0)] = np.inf  # a NaN, or a bound that passes nothing
    error[allowed == NOT_LOOKED_AT] = 0.0
    place = int(np.argmax(error))
    counted = ~np.isinf(allowed)
    if not counted.all():
        difference, magnitude = difference[counted], magnitude[counted]
    return _Part(
        place=place,
        error=float(error[place]),
        allowed=float(allowed[place]),
        wrong=int(np.count_nonzero(error > 1.0)),
        largest=float(np.max(difference, initial=0.0)),
        distance=_norm(difference),
        norm=_norm(magnitude),
    )


def _difference(output: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |output - expected| in float64: 0 for the same infinity; of integers the exact one, rounded once."""
    is_wide = output.dtype.char in WIDE
    wide_output, wide_expected = (_widened(each, is_wide=is_wide) for each in (output, expected))
    with np.errstate(invalid="ignore", over="ignore"):
        rounded: np.ndarray = np.abs(wide_output - wide_expected).astype(np.float64, copy=False)
    rounded[wide_output == wide_expected] = 0.0
    is_exact = max(output.dtype.itemsize, expected.dtype.itemsize) < 8
    if is_exact or output.dtype.kind not in "iub" or expected.dtype.kind not in "iub":
        return rounded
    one, other = output.astype(np.uint64), expected.astype(np.uint64)  # modulo 2^64, and so are their differences
    exact = np.where(output > expected, one - other, other - one).astype(np.float64)
    return np.asarray(np.where(rounded < 2.0**63, exact, rounded))


def _norm(values: np.ndarray) -> float:
    """Return the Euclidean norm; scaled, since squares of large values overflow."""
    largest = float(np.max(values, initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return largest
    scaled = values.ravel() / largest
    return largest * float(np.sqrt(np.einsum("i,i", scaled, scaled)))  # not BLAS: its threads cost more than they give


def _widened(array: np.ndarray, *, is_wide: bool = False) -> np.ndarray:
    if is_wide and array.dtype.char in WIDE:
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def in_order(arrays: Arrays, groups: Sequence[str | tuple[str, ...]]) -> dict[str, np.ndarray]:
    """Return arrays with the rows of each group sorted: by the first one's columns, then by the next one's."""
    found = dict(arrays)
    for group in groups:
        wanted = (group,) if isinstance(group, str) else group
        names = [name for each in wanted for name in arrays if name.partition(".")[0] == each]
        columns = [column for name in names for column in arrays[name].reshape(len(arrays[name]), -1).T]
        if columns and columns[0].size:
            order = np.lexsort(columns[::-1])
            found |= {name: arrays[name][order] for name in names}
    return found
