"""How far a result may lie from the reference where nobody has said it: by its type and by how long sums can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cuprof.errors import UsageError
from cuprof.family import Arrays, Signature, Tolerance

FACTOR = 4
"""What roundings may add up to, in units of √terms · eps. The error of a sum of n rounded terms in any order grows as
√n with high probability: Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci.
Comput. 41 (2019)."""


def by_type(signature: Signature, expected: Arrays, *, is_exact: bool) -> Tolerance:
    """Return the tolerance of the coarsest floating-point type among the outputs; whole numbers are exact.

    Args:
        is_exact: what is expected was computed in float64; else in the outputs' own type, and errs itself.
    """
    types = {np.dtype(array.dtype) for array in signature.outputs.values()}
    floating = [kind for kind in types if kind.kind in "fc"]
    if not floating:
        return Tolerance(reason="whole numbers are exact")
    coarsest = max(floating, key=lambda kind: float(np.finfo(kind).eps))
    eps = float(np.finfo(coarsest).eps)
    terms = _longest_sum(signature)
    relative = FACTOR * math.sqrt(terms) * eps * (1 if is_exact else 2)
    usual = max((float(np.mean(np.abs(array))) for array in expected.values() if array.size), default=0.0)
    both = "" if is_exact else ", twice since the reference is of that type too"
    reason = f"{coarsest}: {FACTOR}·√terms·eps of the value and of the mean one, sums of up to {terms} terms{both}"
    return Tolerance(absolute=relative * usual if math.isfinite(usual) else 0.0, relative=relative, reason=reason)


def as_given(given: Any, problem: Any, inputs: Arrays, expected: Arrays) -> Tolerance:
    """Return the tolerance that a person gave: a function, a `Tolerance`, a relative bound, or (relative, absolute)."""
    if callable(given):
        return given(problem, inputs, expected)  # type: ignore[no-any-return]
    if isinstance(given, Tolerance):
        return given
    parts = given if isinstance(given, tuple) else (given, 0.0)
    if len(parts) != 2 or not all(isinstance(part, int | float) for part in parts):
        raise UsageError(f"tolerance is {given!r}; give a relative bound, (relative, absolute), or a function")
    return Tolerance(relative=float(parts[0]), absolute=float(parts[1]), reason="as given")


def _longest_sum(signature: Signature) -> int:
    """Return how many terms a sum can have: the longest side of an input, or all of it where results are fewer."""
    inputs, outputs = signature.inputs.values(), signature.outputs.values()
    results = max(1, max((array.size for array in outputs), default=1))
    sides = [side for array in inputs for side in array.shape]
    return max([1, *sides, *(-(-array.size // results) for array in inputs)])


def plain(given: Any) -> Mapping[str, Any] | Any:
    """Return what stands for a tolerance in a family's contract: its function, or its numbers as text."""
    if given is None:
        return by_type
    if callable(given):
        return given
    return repr(given)
