"""What is compiled once for functions that are the same, and what is compiled each time."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.backends.cpu.compilations import Compilations


class Dispatcher:
    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options


def njit(*arguments: Any, **options: Any) -> Any:
    """Decorate as Numba does: plainly, with options, or called with both."""
    if arguments and callable(arguments[0]):
        return Dispatcher(arguments[0], options)
    return lambda function: Dispatcher(function, options)


@pytest.fixture
def numba() -> SimpleNamespace:
    made = SimpleNamespace(njit=njit, jit=njit, prange=range)
    compilations = Compilations()
    for _ in range(2):
        compilations.install(made)
    return made


def define(text: str, **names: Any) -> Any:
    """Execute a definition of `f` in a module of its own, as each loading of a family does."""
    scope: dict[str, Any] = dict(names)
    exec(compile(text, "family.py", "exec"), scope)
    return scope["f"]


PLAIN = "def f(x):\n    return x * SCALE\n"


def test_a_function_that_is_defined_anew_is_compiled_once(numba: SimpleNamespace) -> None:
    for compile_it in (numba.njit, numba.njit(), numba.njit(parallel=True), numba.jit(nogil=True)):
        one, same = (compile_it(define(PLAIN, SCALE=2, np=np)) for _ in range(2))
        assert one is same
        assert one.function(4) == 8
    direct = [numba.njit(define(PLAIN, SCALE=2), parallel=True) for _ in range(2)]
    assert direct[0] is direct[1]
    assert direct[0].options == {"parallel": True}
    assert numba.njit(parallel=True)(define(PLAIN, SCALE=2)) is direct[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((PLAIN, {"SCALE": 2}), (PLAIN, {"SCALE": 3})),
        ((PLAIN, {"SCALE": 2}), (PLAIN, {"SCALE": 2.0})),
        ((PLAIN, {"SCALE": np.float32(2)}), (PLAIN, {"SCALE": np.float64(2)})),
        ((PLAIN, {"SCALE": np.float32}), (PLAIN, {"SCALE": np.float64})),
        ((PLAIN, {"SCALE": 2}), (PLAIN.replace("*", "+"), {"SCALE": 2})),
        ((PLAIN, {"SCALE": 2}), (PLAIN.replace("(x)", "(x, y=1)"), {"SCALE": 2})),
        (("def f(x, y=1):\n    return x\n", {}), ("def f(x, y=2):\n    return x\n", {})),
        (("def f(x):\n    return [N for i in x]\n", {"N": 1}), ("def f(x):\n    return [N for i in x]\n", {"N": 2})),
    ],
)  # fmt: skip
def test_functions_that_differ_in_anything_are_compiled_each(numba: SimpleNamespace, one: Any, other: Any) -> None:
    first, second = (numba.njit(define(text, **names)) for text, names in (one, other))
    assert first is not second
    assert numba.njit()(define(other[0], **other[1])) is not first
    assert numba.njit(parallel=True)(define(one[0], **one[1])) is not first


def test_what_a_closure_holds_tells_functions_apart(numba: SimpleNamespace) -> None:
    def make(scale: Any) -> Any:
        @numba.njit
        def f(x: int) -> Any:
            return x * scale

        return f

    assert make(2) is make(2)
    assert make(2) is not make(3)
    assert make(np.ones(2)) is not make(np.ones(2))  # an array may change


def test_a_compiled_function_may_call_another_one(numba: SimpleNamespace) -> None:
    inner = [numba.njit(define(PLAIN, SCALE=2)) for _ in range(2)]
    text = "def f(x):\n    return INNER(x)\n"
    assert numba.njit(define(text, INNER=inner[0])) is numba.njit(define(text, INNER=inner[1]))
    other = numba.njit(define(PLAIN, SCALE=3))
    assert numba.njit(define(text, INNER=inner[0])) is not numba.njit(define(text, INNER=other))


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, np.ones(3), lambda x: x, ModuleType("_cuprof_family_1.steps"), object()]
)
def test_what_may_change_under_its_name_is_compiled_each_time(numba: SimpleNamespace, value: Any) -> None:
    first, second = (numba.njit(define(PLAIN, SCALE=value)) for _ in range(2))
    assert first is not second


def test_numba_itself_compiles_once() -> None:
    real = pytest.importorskip("numba")
    made = SimpleNamespace(njit=real.njit, jit=real.jit)
    Compilations().install(made)
    results = []
    for scale in (2, 2, 3):
        f = made.njit(nogil=True)(define("def f(x):\n    return x * SCALE\n", SCALE=scale))
        results.append((f, f(10)))
    assert [value for _, value in results] == [20, 20, 30]
    assert results[0][0] is results[1][0]
    assert len(results[0][0].signatures) == 1
