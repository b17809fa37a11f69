"""Compare a result with its reference."""

from __future__ import annotations

import numpy as np

from cuprof.family import Arrays, Tolerance
from cuprof.records import Check


def compare(outputs: Arrays, reference: Arrays, tolerance: Tolerance, seed: int = 0) -> Check:
    """Return whether every output lies within tolerance, and by how much it is off.

    NaN in an output never passes, wherever it stands; neither does an infinity that the reference has not.

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
    difference = _difference(output, expected)
    allowed = np.asarray(tolerance.absolute + tolerance.relative * np.abs(expected.astype(np.float64)))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(difference == 0, 0.0, difference / allowed)
    error = np.where(np.isnan(difference) | np.isnan(allowed), np.inf, error)
    position = np.unravel_index(int(np.argmax(error)), error.shape)
    largest = float(error[position])
    passed = largest <= 1.0
    absolute = float(np.max(difference))
    norm = float(np.linalg.norm(expected.astype(np.float64).ravel()))
    distance = float(np.linalg.norm(difference.ravel()))
    relative = distance / norm if norm else (0.0 if distance == 0 else float("inf"))
    message = ""
    if not passed:
        wrong = int(np.count_nonzero(~(error <= 1.0)))
        index = ",".join(map(str, position))
        bound = np.broadcast_to(allowed, error.shape)[position]
        message = (
            f"{name}[{index}] = {output[position]!s}, expected {expected[position]!s} ± {bound:.3g} "
            f"({tolerance.reason}); {wrong} of {output.size} elements are wrong"
        )
    return Check(passed, largest, absolute, relative, message, seed)


def _difference(output: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |output - expected| in float64, exact zero where both are the same infinity or the same integer."""
    if output.dtype.kind in "iub" and expected.dtype.kind in "iub":
        low, high = np.minimum(output, expected), np.maximum(output, expected)
        if output.dtype.itemsize < 8 and expected.dtype.itemsize < 8:
            return (high.astype(np.int64) - low.astype(np.int64)).astype(np.float64)
        wide: np.ndarray = np.where(output == expected, 0.0, np.abs(output.astype(np.float64) - expected))
        return np.asarray(np.where((output != expected) & (wide == 0), 1.0, wide))
    wide_output, wide_expected = output.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(wide_output == wide_expected, 0.0, np.abs(wide_output - wide_expected)))
