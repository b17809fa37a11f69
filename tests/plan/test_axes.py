import pytest

from cuprof.core.errors import SelectionError
from cuprof.families import Axis, Tunable
from cuprof.families.model import Variant
from cuprof.plan.axes import axis_values, match, tunable_values

N = Axis("n", default=4, low=1, high=2**30)
DTYPE = Axis("dtype", default="float32", choices=("float32", "int32"))
RADIUS = Axis("radius", default=3, choices=(3, 5, 7))


def variant(name: str, *values) -> Variant:
    return Variant(name, "cpu", "cpu", print, "", tunables=(Tunable("block", values, values[0]),))


def test_whole_numbers_arithmetic_and_exact_floats_in_the_order_given_once():
    assert axis_values(N, ["2**4", 3, 1e6, "16", 16.0, "1e3"]) == (16, 3, 1000000, 1000)
    assert {type(value) for value in axis_values(N, [1e6, "1e3", 5])} == {int}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("abc", "problem.n=abc is not a number"),
        (0, "problem.n=0 is out of range"),
        (-1, "problem.n=-1 is out of range"),
        ("2**31", "problem.n=2**31 is out of range"),
        ("9**9**9", "problem.n=9**9**9 is too large"),
        (1.5, "problem.n=1.5 is not a whole number"),
        ("3/2", "problem.n=3/2 is not a whole number"),
        (1e17, "problem.n=1e+17 is not a whole number"),
        (True, "problem.n=True is not a number"),
        ("", "problem.n= is not a number"),
        ("1/0", "problem.n=1/0 divides by zero"),
        ("x" * 500, "problem.n=" + "x" * 59 + "… has more than 200 characters"),
    ],
)
def test_a_value_off_an_integer_axis_is_one_line(value, said):
    with pytest.raises(SelectionError) as caught:
        axis_values(N, [value])
    assert str(caught.value) == (
        f"{said}; problem axis n takes a whole number from 1 to 1073741824 (arithmetic such as 2**24 works)"
    )


def test_choices_by_name_by_number_and_all():
    assert axis_values(DTYPE, ["int32"]) == ("int32",)
    assert axis_values(DTYPE, ["all"]) == ("float32", "int32")
    assert axis_values(RADIUS, ["2**2+1", 3]) == (5, 3)
    with pytest.raises(SelectionError, match=r"^problem\.dtype=float64 is not allowed; .* one of float32, int32$"):
        axis_values(DTYPE, ["float64"])


@pytest.mark.parametrize(
    ("value", "allowed", "found"),
    [
        ("2**7", (64, 128), 128),
        (128.0, (64, 128), 128),
        (1, (0.5, 1.0), 1.0),
        ("0.5", (0.5, 1.0), 0.5),
        ("true", (False, True), True),
        ("False", (False, True), False),
        (1, (False, True), None),
        (0, (False, True), None),
        (True, (0, 1), None),
        (16, ("16", "32"), "16"),
        (True, ("true", "false"), "true"),
        ("row", ("row", "column"), "row"),
        ("rows", ("row", "column"), None),
        ("7", (64, 128), None),
    ],
)
def test_match(value, allowed, found):
    result = match(value, allowed)
    assert result == found
    assert type(result) is type(found)


def test_each_variant_takes_its_share_of_a_tunable():
    shares = tunable_values("block", ["64", 128, "2**8", 64], [variant("a", 64, 128), variant("b", 128, 256)])
    assert shares == {"a": ((64, 128), ("2**8",)), "b": ((128, 256), ("64", 64))}


def test_all_values_of_a_tunable():
    shares = tunable_values("block", ["all"], [variant("a", 64, 128), variant("b", 32)])
    assert shares == {"a": ((64, 128), ()), "b": ((32,), ())}


@pytest.mark.parametrize("value", [7, 0, 2048, "x", True])
def test_a_value_that_no_variant_allows_names_what_each_allows(value):
    with pytest.raises(SelectionError) as caught:
        tunable_values("block", [64, value], [variant("a", 64, 128), variant("b", 64, 128), variant("c", 64)])
    assert str(caught.value) == (f"tune.block={value} is not allowed: a and b take block = 64, 128; c takes block = 64")
