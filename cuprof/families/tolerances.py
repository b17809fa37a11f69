"""How far a result may lie from the reference: as given, or by its type and by the length of its sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.families.arrays import by_field, is_floating, widen
from cuprof.families.model import Arrays, Signature, Tolerance, Tolerances
from cuprof.families.program import is_extended

FACTOR = 8
"""How far roundings may add up, in units of √terms · eps. The error of a sum of n rounded terms in any order grows as
√n with high probability: Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci.
Comput. 41 (2019)."""
MOST_WIDENED = 2**16
"""Elements that are widened at once: a result of a gigabyte takes several times as long as a whole."""


def by_type(signature: Signature, expected: Arrays, terms: int, *, is_exact: bool) -> dict[str, Tolerance]:
    """Return the tolerance of each output, and of each field of one, by its floating-point type.

    Args:
        terms: the most inputs that a result depends on.
        is_exact: the reference was computed in float64; otherwise in the outputs' own type, with errors of its own.
    """
    kinds = by_field({name: np.empty(0, array.type) for name, array in signature.outputs.items()})
    found = by_field(expected).items()
    return {name: _of_type(kinds[name].dtype, array, terms, is_exact=is_exact) for name, array in found}


def at_least(bounds: Mapping[str, Tolerance], expected: Arrays, own: Arrays) -> dict[str, Tolerance]:
    """Return bounds wide enough for a reference computed in the results' own types.

    A function that is also the reference is then not wrong for its own formula's loss near zero.
    """
    found = dict(bounds)
    for name in expected.keys() & own.keys() & bounds.keys():
        right = widen(np.ma.getdata(expected[name]))
        if own[name].shape != right.shape or not is_floating(right):
            continue
        with np.errstate(all="ignore"):
            beyond = np.abs(widen(own[name]) - right) - bounds[name].relative * np.abs(right)
        most = 2 * float(np.max(beyond, initial=0.0, where=np.isfinite(beyond)))
        if most > np.max(bounds[name].absolute):
            reason = f"{bounds[name].reason}, and twice what the reference, computed in it, is off by beyond"
            found[name] = replace(bounds[name], absolute=most, reason=reason)
    return found


def _of_type(kind: np.dtype, expected: np.ndarray, terms: int, *, is_exact: bool) -> Tolerance:
    if kind.kind not in "fcV" or "int" in kind.name:  # ml_dtypes' int4 is of kind V
        return Tolerance(reason="whole numbers are exact")
    summed_in, rounding, said = kind, 0.0, ""
    if is_extended(kind):  # sums are taken in float32 there, and rounded once
        import ml_dtypes

        rounding = float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]
        summed_in, said = np.dtype("f4"), "eps, and "
    relative = (rounding + FACTOR * math.sqrt(terms) * float(np.finfo(summed_in).eps)) * (1 if is_exact else 2)
    both = "" if is_exact else ", twice since the reference is of that type too"
    said += f"{FACTOR}·√terms·eps" + (" of float32," if rounding else "")
    reason = f"{kind}: {said} of the value and of the mean one, results of {terms} terms{both}"
    return Tolerance(absolute=relative * _mean(expected), relative=relative, reason=reason)


def count_terms(signature: Signature, inputs: Arrays, compute: Callable[[Arrays], Arrays]) -> int:
    """Return the most input numbers that a result depends on, where `compute` gives the right results for inputs.

    A NaN in an input reaches the results that depend on it. If one reaches r of m results, a result depends on about r
    · n / m of that input's n numbers. The first, middle and last number of each input are tried, since a running sum's
    first one reaches all results and its last one a single result. If none can be followed, the shapes decide.
    """
    results = max(1, sum(array.size for array in signature.outputs.values()))
    terms = 0
    for name, array in inputs.items():
        if not is_floating(array) or not array.size:
            continue
        reached = 0
        for place in {0, array.size // 2, array.size - 1}:
            changed = array.copy()
            changed.reshape(-1)[place] = np.nan
            with np.errstate(all="ignore"):
                found = compute({**inputs, name: changed}).values()
            reached = max(reached, int(sum(np.count_nonzero(is_nan(each)) for each in found)))
        terms += -(-reached * array.size // results)
    return terms or longest_sum(signature)


def is_nan(array: np.ndarray) -> np.ndarray:
    """Return where an array holds NaN, outside of its mask."""
    return np.ma.filled(np.isnan(array), False) if is_floating(array) else np.zeros(array.shape, bool)


def check_given(given: Any) -> None:
    """Raise `UsageError` for anything but a function, a bound, (relative, absolute), or one for each output."""
    if isinstance(given, Mapping):
        for one in given.values():
            check_given(one)
    elif given is not None and not callable(given) and not isinstance(given, Tolerance):
        parts = given if isinstance(given, tuple) else (given, 0.0)
        if len(parts) != 2 or not all(isinstance(part, int | float) for part in parts):
            raise UsageError(f"tolerance is {given!r}; give a relative bound, (relative, absolute), or a function")
        if not all(part >= 0 for part in parts):
            raise UsageError(f"tolerance is {given!r}; a bound is 0 or more")


def as_given(given: Any, problem: Any, inputs: Arrays, expected: Arrays) -> Tolerances:
    """Return the user's tolerance, which `check_given` has accepted, for these results.

    A single bound is relative to the value and, like the default, to the mean value: near zero, a right result is off
    by a fraction of the terms it sums.
    """
    if isinstance(given, Mapping):
        found: dict[str, Tolerance] = {}
        for name, one in given.items():
            own = {key: array for key, array in expected.items() if key == name}
            bound = as_given(one, problem, inputs, own)
            found |= {name: bound} if isinstance(bound, Tolerance) else bound
        return found
    if callable(given):
        return given(problem, inputs, expected)  # type: ignore[no-any-return]
    if isinstance(given, Tolerance):
        return given
    if isinstance(given, tuple):
        return Tolerance(relative=float(given[0]), absolute=float(given[1]), reason="as given")
    relative, reason = float(given), "as given, of the value and of the mean one"
    return {name: Tolerance(relative * _mean(array), relative, reason) for name, array in by_field(expected).items()}


def _mean(expected: np.ndarray) -> float:
    """Return the mean absolute value, zero where there is none."""
    flat, total = expected.reshape(-1), 0.0
    for begin in range(0, flat.size, MOST_WIDENED):
        total += float(np.sum(np.ma.filled(np.abs(widen(flat[begin : begin + MOST_WIDENED])), 0)))
    usual = total / max(1, int(np.ma.count(expected)))
    return usual if math.isfinite(usual) else 0.0


def longest_sum(signature: Signature) -> int:
    """Return how many terms a sum can have: the longest side of an input, or all of it where results are fewer."""
    inputs, outputs = signature.inputs.values(), signature.outputs.values()
    results = max(1, max((array.size for array in outputs), default=1))
    sides = [side for array in inputs for side in array.shape]
    return max([1, *sides, *(-(-array.size // results) for array in inputs)])


def plain(given: Any) -> Mapping[str, Any] | Any:
    """Return a tolerance as part of a family's contract: its function, or its numbers as text."""
    if given is None:
        return by_type
    if callable(given):
        return given
    each = given.values() if isinstance(given, Mapping) else [given]
    return repr(given) + (", and of the mean" if any(isinstance(one, int | float) for one in each) else "")
