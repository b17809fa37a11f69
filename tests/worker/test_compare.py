"""Results against references: what passes, what never does, and the figures and words that say so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cuprof.core.records import Check
from cuprof.families import Tolerance
from cuprof.worker.compare import compare

NAN, INF = math.nan, math.inf
EXACT = Tolerance()


def check(output: object, expected: object, tolerance: Tolerance = EXACT) -> Check:
    return compare({"y": np.asarray(output)}, {"y": np.asarray(expected)}, tolerance, seed=7)


def test_an_equal_result_passes_with_error_zero() -> None:
    assert check([1.0, 2.0], [1.0, 2.0]) == Check(True, 0.0, 0.0, 0.0, seed=7)


def test_figures_of_a_result_within_tolerance() -> None:
    found = check([3.0, 4.5], [3.0, 4.0], Tolerance(absolute=1.0))
    assert (found.passed, found.error, found.error_absolute) == (True, 0.5, 0.5)
    assert found.error_relative == pytest.approx(0.1)
    assert found.message == ""


@pytest.mark.parametrize("position", [0, 5, 9])
@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(absolute=INF), Tolerance(relative=1e30)])
def test_nan_never_passes_wherever_it_stands(position: int, tolerance: Tolerance) -> None:
    output = np.zeros(10)
    output[position] = NAN
    found = check(output, np.zeros(10), tolerance)
    assert not found.passed
    assert found.error == INF
    assert f"y[{position}] = nan" in found.message
    assert "1 of 10 elements are wrong" in found.message


def test_nan_does_not_pass_even_where_the_reference_has_it() -> None:
    assert not check([NAN], [NAN], Tolerance(absolute=INF)).passed
    assert not check([1.0], [NAN], Tolerance(absolute=INF)).passed


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(absolute=1e300), Tolerance(relative=0.5)])
def test_infinities_pass_only_where_the_reference_has_the_same(tolerance: Tolerance) -> None:
    assert check([INF, -INF], [INF, -INF], tolerance).passed
    for output, expected in ((INF, 1.0), (-INF, INF), (1.0, INF), (1.0, -INF), (NAN, INF)):
        found = check([0.0, output], [0.0, expected], tolerance)
        assert not found.passed
        assert found.error == INF


def test_overflow_of_the_difference_is_no_warning() -> None:
    assert not check([1.7e308], [-1.7e308]).passed


@pytest.mark.parametrize("wrong", [NAN, -1.0, np.array([0.0, -1.0])])
def test_a_tolerance_that_is_nan_or_negative_passes_nothing(wrong: float | np.ndarray) -> None:
    assert not check([1.0, 1.0], [1.0, 1.0], Tolerance(absolute=wrong)).passed
    assert not check([1.0, 1.5], [1.0, 1.0], Tolerance(absolute=wrong)).passed


def test_shape_and_missing_output_are_named() -> None:
    found = check([1.0, 2.0], [1.0, 2.0, 3.0])
    assert (found.passed, found.error) == (False, INF)
    assert found.message == "output y has shape (2,), expected (3,)"
    assert not check(1.0, [1.0]).passed
    missing = compare({"x": np.zeros(1)}, {"y": np.zeros(1)}, Tolerance())
    assert (missing.passed, missing.message) == (False, "output y was not produced")


def test_the_worst_of_several_outputs_counts_and_the_first_wrong_one_is_named() -> None:
    reference = {"a": np.zeros(2), "b": np.zeros(2), "c": np.zeros(2)}
    tolerance = Tolerance(absolute=1.0)
    outputs = {"a": np.array([0.0, 0.9]), "b": np.array([0.5, 0.0]), "c": np.zeros(2)}
    assert compare(outputs, reference, tolerance).error == 0.9
    outputs["b"] = np.array([0.0, 3.0])
    assert compare(outputs, reference, tolerance).message.startswith("b[1] = 3.0")


def test_the_message_says_where_what_and_why() -> None:
    output, expected = np.zeros((2, 3), np.float32), np.zeros((2, 3))
    output[1, 2] = 0.75
    found = check(output, expected, Tolerance(absolute=0.5, reason="three roundings"))
    assert found.message == "y[1,2] = 0.75, expected 0.0 ± 0.5 (three roundings); 1 of 6 elements are wrong"
    assert found.error == 1.5


def test_a_tolerance_of_an_element_each() -> None:
    bound = np.array([0.1, 1.0, 10.0])
    assert check([0.1, 1.0, 10.0], [0.0, 0.0, 0.0], Tolerance(absolute=bound)).passed
    found = check([0.1, 1.5, 10.0], [0.0, 0.0, 0.0], Tolerance(absolute=bound))
    assert "y[1] = 1.5, expected 0.0 ± 1 " in found.message
    assert check(np.full((2, 3), 0.1), np.zeros((2, 3)), Tolerance(absolute=bound)).passed
    with pytest.raises(ValueError, match="broadcast"):
        check([0.0], [0.0], Tolerance(absolute=bound))


def test_scalar_and_empty_outputs() -> None:
    assert check(1.0, 1.0).passed
    assert "y[] = 2.0" in check(2.0, 1.0).message
    assert check(np.zeros((0, 3)), np.zeros((0, 3))).passed
    assert not check(np.zeros((0, 3)), np.zeros((0, 4))).passed


def test_large_values_have_a_relative_figure() -> None:
    assert check([1e200], [1e200]).error_relative == 0.0
    assert check([1.0], [0.0]).error_relative == INF


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -128), ("uint8", 255), ("int32", 2**31 - 1), ("uint32", 2**32 - 1), ("int64", 2**63 - 1),
        ("int64", -(2**63)), ("uint64", 2**64 - 1), ("int64", 2**53 + 1), ("bool", 1),
    ],
)  # fmt: skip
def test_integers_at_their_limits_are_compared_exactly(dtype: str, value: int) -> None:
    expected = np.array([value], dtype)
    assert check(expected.copy(), expected).passed
    off_by_one = np.array([value ^ 1], dtype)
    found = check(off_by_one, expected)
    assert (found.passed, found.error_absolute) == (False, 1.0)
    assert check(off_by_one, expected, Tolerance(absolute=1.0)).passed


def test_differences_of_wide_integers_are_not_rounded_away() -> None:
    expected = np.array([2**62], np.int64)
    found = check(expected + 500, expected, Tolerance(absolute=100.0))
    assert (found.passed, found.error_absolute) == (False, 500.0)


def test_integers_of_opposite_sign_and_kind() -> None:
    low, high = np.array([-(2**63)], np.int64), np.array([2**63 - 1], np.int64)
    assert check(high, low).error_absolute == pytest.approx(2.0**64)
    assert check(np.array([2**64 - 1], np.uint64), low).error_absolute == pytest.approx(1.5 * 2.0**64)
    assert check(np.array([255], np.uint8), np.array([-1], np.int64)).error_absolute == 256.0
    assert check(np.array([5], np.int32), np.array([5.0])).passed
    assert not check(np.array([-1], np.int64), np.array([2**64 - 1], np.uint64)).passed


def test_poisoned_integers_are_wrong() -> None:
    poisoned = np.full(4, -1, np.int32)
    assert not check(poisoned, np.arange(4, dtype=np.int64)).passed


@pytest.mark.parametrize("byte", [0xFF, 0x5A, 0x7E])
def test_a_byte_that_is_no_truth_value_is_not_true(byte: int) -> None:
    unwritten = np.full(4, byte, np.uint8).view(bool)
    for expected in (np.ones(4, bool), np.ones(4)):
        assert not compare({"y": unwritten}, {"y": expected}, Tolerance(relative=0.5)).passed
        assert compare({"y": np.ones(8, bool)[::2]}, {"y": expected}, Tolerance()).passed


def test_complex_results_are_compared_in_both_parts() -> None:
    assert check([1 + 2j], [1 + 2j]).passed
    found = check([1 + 2j], [1 + 5j], Tolerance(absolute=1.0))
    assert (found.passed, found.error) == (False, 3.0)


@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble])
def test_numbers_wider_than_float64_are_compared_as_such(kind: type) -> None:
    expected = np.full(3, 1, kind) + np.finfo(np.longdouble).eps
    assert check(expected.copy(), expected).passed
    found = check(np.full(3, 1, kind), expected)
    assert (found.passed, found.error_absolute) == (False, float(np.finfo(np.longdouble).eps))
    narrow = expected.astype(np.complex128 if np.iscomplexobj(expected) else np.float64)
    assert check(narrow, expected).passed  # as near as its type allows


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
VECTORS = arrays.arrays(np.float64, 5, elements=FLOATS)


@given(VECTORS, VECTORS, st.floats(0, 1e30), st.floats(0, 1))
def test_the_error_exceeds_one_exactly_where_a_result_fails(
    output: np.ndarray, expected: np.ndarray, absolute: float, relative: float
) -> None:
    found = check(output, expected, Tolerance(absolute, relative))
    by_definition = all(
        one == other or (math.isfinite(other) and abs(one - other) <= absolute + relative * abs(other))
        for one, other in zip(output.tolist(), expected.tolist(), strict=True)
    )
    assert found.passed == (found.error <= 1.0) == by_definition
    assert bool(found.message) != found.passed
    assert not math.isnan(found.error)


@given(
    arrays.arrays(np.int64, 3, elements=st.integers(-(2**63), 2**63 - 1)),
    arrays.arrays(np.int64, 3, elements=st.integers(-(2**63), 2**63 - 1)),
    st.integers(0, 2**53),
)
def test_integer_results_are_judged_by_their_exact_difference(
    output: np.ndarray, expected: np.ndarray, absolute: int
) -> None:
    largest = max(abs(int(one) - int(other)) for one, other in zip(output, expected, strict=True))
    found = check(output, expected, Tolerance(float(absolute)))
    assert found.passed == (float(largest) <= absolute)
    assert found.error_absolute == pytest.approx(float(largest), rel=1e-15)


@given(VECTORS, st.floats(0, 1e30))
def test_more_tolerance_never_fails_what_less_passes(expected: np.ndarray, absolute: float) -> None:
    output = expected + 1.0
    if check(output, expected, Tolerance(absolute)).passed:
        assert check(output, expected, Tolerance(2 * absolute)).passed
