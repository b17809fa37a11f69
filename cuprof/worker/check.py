"""Compare a result with its reference."""

from __future__ import annotations

import numpy as np

from cuprof.family import Arrays, Tolerance
from cuprof.records import Check


def compare(outputs: Arrays, reference: Arrays, tolerance: Tolerance, seed: int = 0) -> Check:
    """Return whether every output lies within tolerance, and by how much it is off.

    NaN never passes, wherever it stands and even where the reference has it too; an infinity passes where the
    reference has the same one. A tolerance that is NaN or negative passes nothing.

    Args:
        outputs: what the variant computed, host arrays by name.
        reference: what is right, float64 or exact integers, by the same names and shapes.
        tolerance: how far apart they may lie.
        seed: seed of the inputs, kept in the record.
    """
    worst = Check(True, 0.0, 0.0, 0.0, seed=seed)
    for name, expected in reference.items():
        if name not in outputs:
            return Check(False, np.inf, np.inf, np.inf, f"output {name} was not produced", seed)
        found = _compare_one(name, np.asarray(outputs[name]), np.asarray(expected), tolerance, seed)
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
    difference, magnitude = _difference(output, expected), np.abs(_widened(expected))
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    allowed = np.broadcast_to(tolerance.absolute + tolerance.relative * finite, expected.shape)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.where(difference == 0, 0.0, difference / allowed)
    error = np.where(np.isnan(error) | ~(allowed >= 0), np.inf, error)
    position = np.unravel_index(int(np.argmax(error)), error.shape)
    largest = float(error[position])
    passed = largest <= 1.0
    counted = ~np.isinf(allowed)  # an infinite tolerance says that an element is nobody's business
    difference, magnitude = difference[counted], magnitude[counted]
    absolute = float(np.max(difference, initial=0.0))
    norm, distance = _norm(magnitude), _norm(difference)
    relative = distance / norm if norm else (0.0 if distance == 0 else float("inf"))
    message = ""
    if not passed:
        wrong = int(np.count_nonzero(~(error <= 1.0)))
        index = ",".join(map(str, position))
        message = (
            f"{name}[{index}] = {output[position]!s}, expected {expected[position]!s} ± {allowed[position]:.3g} "
            f"({tolerance.reason}); {wrong} of {output.size} elements are wrong"
        )
    return Check(passed, largest, absolute, relative, message, seed)


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


def _norm(values: np.ndarray) -> float:
    """Return the Euclidean norm; scaled, since squares of large values overflow."""
    largest = float(np.max(values, initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(values.ravel() / largest))


def _widened(array: np.ndarray) -> np.ndarray:
    wide: np.ndarray = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return wide
