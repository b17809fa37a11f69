import pytest

from cuprof.core.errors import FamilyError
from cuprof.families import Point
from cuprof.families.tunables import read_constraint

KNOWN = ("block_x", "block_y", "layout", "n")
PROBLEM = Point(n=4096)


def reason(given, **tunables):
    constraint = read_constraint(given, KNOWN)
    assert constraint is not None
    return constraint(PROBLEM, Point(**tunables))


def test_a_text_is_what_has_to_hold_of_tunables_and_axes():
    text = "block_x * block_y <= 1024 and n % block_x == 0"
    assert reason(text, block_x=32, block_y=32) is None
    assert reason(text, block_x=64, block_y=32) == f"not {text}"
    assert reason("layout == 'row' or max(block_x, 4) < 8", layout="column", block_x=16) is not None


def test_a_function_takes_what_its_parameters_name():
    assert reason(lambda block_x, n: n % block_x == 0, block_x=48) == "its constraint does not hold"
    assert reason(lambda block_x: "odd" if block_x % 2 else None, block_x=3) == "odd"
    assert reason(lambda problem, tune: f"{problem.n} {tune.block_x}", block_x=3) == "4096 3"


def test_of_several_the_first_that_does_not_hold_is_told():
    given = ["block_x > 1", lambda block_y: block_y > 1, "block_x > block_y"]
    assert reason(given, block_x=8, block_y=4) is None
    assert reason(given, block_x=2, block_y=4) == "not block_x > block_y"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("block_x <= ", "'block_x <= ' is not an expression: "),
        ("block_z < 4", "names block_z; there are block_x, block_y, layout, n"),
        ("__import__('os')", "names __import__"),
    ],
)
def test_a_text_that_says_nothing_is_refused(text, said):
    with pytest.raises(FamilyError, match="constraint ") as caught:
        read_constraint(text, KNOWN)
    assert said in str(caught.value)
