import contextlib
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuprof.core.errors import BuildError, DeviceMemoryError, SelectionError, UnknownNameError
from cuprof.core.expression import FUNCTIONS, MAX_BITS, ExpressionError, compute, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2**24", 16777216),
        ("2^24", 16777216),
        ("2^24+1", 16777217),
        ("3*1024", 3072),
        (" ( 1 + 2 ) * 3 ", 9),
        ("-2**2", -4),
        ("+7", 7),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("6/3", 2),
        ("2**62/2", 2**61),
        ("7/2", 3.5),
        ("2**-1", 0.5),
        ("1e6", 1e6),
        ("1_000_000", 1000000),
        ("0x400", 1024),
        ("1**999999999999", 1),
        ("(-1)**3", -1),
        ("0**5", 0),
        ("4**0.5", 2.0),
        (5, 5),
        (2.5, 2.5),
    ],
)
def test_arithmetic(text, value):
    result = evaluate(text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("abc", "is not a number"),
        ("()", "is not a number"),
        ("float32", "is not a number"),
        ("", "is not a number"),
        ("1 2", "is not a number"),
        ("(1", "is not a number"),
        ("1+", "is not a number"),
        ("e", "is not a number"),
        ("1j", "is not a number"),
        ("1 if 1 else 2", "is not a number"),
        ("__import__('os')", "is not a number"),
        ("2.real", "is not a number"),
        ("a.b", "is not a number"),
        ("1(2)", "is not a number"),
        ("0777", "is not a number"),
        ("1,2", "is not a number"),
        ("~1", "is not a number"),
        ("1\x00", "is not a number"),
        ("1/0", "divides by zero"),
        ("1//0", "divides by zero"),
        ("1%0", "divides by zero"),
        ("0**-1", "divides by zero"),
        ("9**9**9", "is too large"),
        ("2**200", "is too large"),
        ("2**127*2**127", "is too large"),
        ("10.0**400", "is too large"),
        ("1e999", "is too large"),
        ("(-8)**0.5", "is not a real number"),
        ("(" * 150 + "1" + ")" * 150, "has more than 200 characters"),
        (True, "is not a number"),
        (float("nan"), "is not finite"),
        (float("inf"), "is too large"),
        (10**60, "is too large"),
    ],
)
def test_what_is_refused(text, fault):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text)
    assert caught.value.fault == fault
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("allowed are whole numbers, decimals, + - * / // % ** and parentheses")


@pytest.mark.parametrize("text", ["9**9**9", "9**9**9**9", "2**99999999999", "(" * 95 + "1" + ")" * 95, "9" * 200])
def test_hostile_text_is_answered_at_once(text):
    start = time.thread_time()  # of a processor: a busy host may take any time
    with contextlib.suppress(ExpressionError):
        evaluate(text)
    assert time.thread_time() - start < 10  # computed in full, it would take hours or all memory


def test_error_is_a_selection_error_and_survives_pickling():
    with pytest.raises(SelectionError) as caught:
        evaluate("x")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "error",
    [UnknownNameError("axis", "m", ["n"], "of f"), DeviceMemoryError("cupy", "no"), BuildError("refused", "log")],
)
def test_every_error_survives_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


numbers = st.integers(0, 2**40)


@given(numbers, numbers, numbers)
def test_agrees_with_python_on_whole_numbers(a, b, c):
    for text in (f"{a}+{b}*{c}", f"({a}-{b})//({c}+1)", f"-{a}%({b}+1)", f"({a}+{b})*{c}"):
        assert evaluate(text) == eval(text)


@given(st.integers(-(2**60), 2**60), st.integers(1, 2**30))
def test_exact_quotients_stay_whole(a, b):
    assert evaluate(f"({a * b})/{b}") == a
    assert isinstance(evaluate(f"({a * b})/{b}"), int)


@given(st.text(alphabet="0123456789eExX_.+-*/%^() ", max_size=30))
def test_any_text_gives_a_bounded_number_or_one_error(text):
    try:
        value = evaluate(text)
    except ExpressionError:
        return
    assert isinstance(value, float) or value.bit_length() <= MAX_BITS


@given(st.text(max_size=40))
def test_arbitrary_text_never_raises_anything_else(text):
    with contextlib.suppress(ExpressionError):
        evaluate(text)


KNOWN = {"block": 64, "n": 2**20, "layout": "nhwc", "half": True, "big": 2**100}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("block * 16 <= 1024", True),
        ("block <= 32 or n % block == 0", True),
        ("32 <= block <= 48", False),
        ("layout == 'nhwc' and half", True),
        ("layout in ('nchw', 'chwn')", False),
        ("block not in [32, 64]", False),
        ("n // block", 2**14),
        ("ceil(n / 1000)", 1049),
        ("max(block, 128, n // 2**18)", 128),
        ("sum((block > 32, n > 1, half)) >= 2", True),
        ("all([block, n]) and not any((0, False))", True),
        ("min(divmod(block, 7))", 1),
        ("block if half else -block", 64),
        ("round(2.567, 1)", 2.6),
        ("round(7.5)", 8),
        ("pow(2, 10)", 1024),
        ("int('12') + len(layout)", 16),
        ("layout is not None", True),
        ("float(block) / 3 > 21.3", True),
    ],
)
def test_an_expression_of_names_agrees_with_python(text, value):
    assert compute(text, KNOWN) == value == eval(text, {"__builtins__": FUNCTIONS}, KNOWN)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(lambda: 1)()", "calls lambda: 1, which expressions cannot"),
        ("lambda: 1", "holds a Lambda, which expressions do not have"),
        ("n.real", "holds an Attribute, which expressions do not have"),
        ("().__class__.__bases__", "holds an Attribute, which expressions do not have"),
        ("__import__('os').system('true')", "calls __import__('os').system, which expressions cannot"),
        ("eval('1')", "calls eval, which expressions cannot"),
        ("pow(2, exp=3)", "calls pow, which expressions cannot"),
        ("max(*layout)", "holds a Starred, which expressions do not have"),
        ("f'{n}'", "holds a JoinedStr, which expressions do not have"),
        ("[x for x in layout]", "holds a ListComp, which expressions do not have"),
        ("(x := 1)", "holds a NamedExpr, which expressions do not have"),
        ("layout[0]", "holds a Subscript, which expressions do not have"),
        ("{1: 2}", "holds a Dict, which expressions do not have"),
        ("b'a'", "holds b'a', which expressions do not have"),
        ("n << 4", "holds a LShift, which expressions do not have"),
        ("~n", "holds an Invert, which expressions do not have"),
        ("m + 1", "uses the unknown name m"),
        ("n +", "is not an expression"),
        ("import os", "is not an expression"),
        ("-" * 200 + "1", "is nested too deeply"),
        ("n" + ".n" * 450 + "()", "is nested too deeply"),
        ("1+" * 600 + "1", "has more than 1000 characters"),
    ],
)
def test_what_an_expression_does_not_have(text, fault):
    with pytest.raises(ExpressionError) as caught:
        compute(text, KNOWN)
    assert caught.value.fault == fault
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("9**9**9", "is too large"),
        ("pow(9, pow(9, 9))", "is too large"),
        ("big * big", "is too large"),
        ("n ** n", "is too large"),
        ("round(n, -10**9)", "is too large"),
        ("float(n) ** 100", "is too large"),
        ("n / 0", "divides by zero"),
        ("layout * n", "has an operation that is not defined on 'nhwc' and 1048576"),
        ("layout + layout", "has an operation that is not defined on 'nhwc' and 'nhwc'"),
        ("'%1000000000d' % n", "has an operation that is not defined on '%1000000000d' and 1048576"),
        ("(1, 2) * n", "has an operation that is not defined on (1, 2) and 1048576"),
        ("layout < n", "has an operation that is not defined on 'nhwc' and 1048576"),
        ("int('9' )+ int('" + "9" * 900 + "')", "is too large"),
        ("(-8) ** 0.5", "is not a real number"),
    ],
)
def test_an_expression_is_bounded(text, fault):
    start = time.thread_time()
    with pytest.raises(ExpressionError) as caught:
        compute(text, KNOWN)
    assert caught.value.fault == fault
    assert time.thread_time() - start < 1


@given(st.text(alphabet="nbloc0123456789 ()[],.+-*/%<=>'\"", max_size=60))
def test_any_expression_gives_a_value_or_one_error(text):
    with contextlib.suppress(ExpressionError):
        compute(text, {"n": 7, "block": 64})
