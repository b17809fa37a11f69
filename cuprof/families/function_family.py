"""Functions on arrays of a library as variants of a family: bound to a session's arrays, their results brought back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cuprof.core.point import Point
from cuprof.core.text import list_first
from cuprof.families.arrays import HOMES, Home, describe, home_of
from cuprof.families.call import Call
from cuprof.families.callables import choose_arguments, list_state
from cuprof.families.model import Arrays, Sample, Signature
from cuprof.families.program import Array


@dataclass(frozen=True)
class Calling:
    """How a function is called.

    Args:
        arguments: their names, in order.
        numbers: those that are no arrays.
        by_name: it is given arguments by the names of its parameters, where these have such names.
        returns: it returns its results; otherwise it writes them to its arguments.
        may_write: it has written its results where it returns nothing.
        of_any_type: results of another type are converted.
    """

    arguments: tuple[str, ...]
    numbers: Mapping[str, Any]
    by_name: bool = False
    returns: bool = True
    may_write: bool = False
    of_any_type: bool = False


class FunctionFamily:
    """Bind functions to a session's arrays, and bring their results there.

    Attributes:
        outputs: the arguments that functions write to; empty where they return their results.
        at_most: results that may have fewer rows than the signature says.
        changed: inputs that functions may leave changed, and do not return; outputs in the signature.
        expectation: the start of an error's description of the right result.
    """

    outputs: tuple[str, ...] = ()
    at_most: Mapping[str, Any] = {}
    changed: tuple[str, ...] = ()
    expectation = "the first variant returns"

    def sample(self, problem: Point) -> Sample:
        """Return the arrays and numbers of a problem, and whose arrays they are."""
        raise NotImplementedError

    def name_results(self, returned: Any, who: str) -> dict[str, Any]:
        """Return a function's results by output name."""
        raise NotImplementedError

    def signature(self, problem: Point) -> Signature:
        """Return the arrays of a problem."""
        return self.sample(problem).signature

    def count_bytes(self, problem: Point) -> int:
        """Return the bytes of all inputs and outputs."""
        signature = self.signature(problem)
        return sum(array.nbytes for array in (*signature.inputs.values(), *signature.outputs.values()))

    def bind_function(
        self,
        function: Callable[..., Any],
        call: Calling,
        problem: Point,
        tunables: Mapping[str, Any],
        inputs: Arrays,
        outputs: Arrays,
    ) -> Any:
        """Return the call to time: the function alone, on a session's arrays."""
        sample = self.sample(problem)
        home, arrays = HOMES[sample.home], {**inputs, **outputs}
        types = {name: spec.type for name, spec in {**sample.signature.inputs, **sample.signature.outputs}.items()}
        names = {name: name for name in call.arguments}
        by_name = choose_arguments(function, names, tunables) if call.by_name else None
        placed, named = by_name or (call.arguments, {})
        used = [name for name in (*placed, *named.values()) if name in arrays]

        def give() -> Callable[[], Any]:
            known = {**call.numbers, **{name: home.view(arrays[name], types[name]) for name in used}}
            keywords = {name: known[one] for name, one in named.items()}
            return partial(function, *(known[name] for name in placed), **keywords, **tunables)

        finish = home.finish  # such a library orders its work behind ours whenever it is given an array
        run = give() if finish is None else lambda: finish(give()())
        put = partial(self._deliver, call, home, outputs, sample.signature) if call.returns else _ignore
        state = list_state(function)
        if not state:
            return Call(run, put) if call.returns else run
        before = {name: each.detach().clone() for name, each in state.items()}
        return Call(run, partial(_put_unchanged, put, state, before))

    def _deliver(self, call: Calling, home: Home, outputs: Arrays, signature: Signature, returned: Any) -> None:
        """Copy a function's results into a session's outputs.

        Raises:
            ValueError: a result has an unexpected shape, type or library.
        """
        if returned is None and call.may_write:
            return
        found = self.name_results(returned, "the function")
        counted = self.count_rows(found)
        wanted = [name for name in outputs if name not in counted.values() and name not in self.changed]
        if {*found} != {*wanted}:
            raise ValueError(
                f"it returned {list_first([*found], 4)}; the first variant returns {list_first(wanted, 4)}"
            )
        for name in wanted:
            result, output, right = found[name], outputs[name], signature.outputs[name]
            own = home_of(result)
            if own is None and isinstance(result, int | float | complex | np.generic):
                is_plain = not isinstance(result, np.generic)
                result = home.bring(np.asarray(result, right.type if is_plain else None))
            elif own is not home:
                kind = own.name if own else type(result).__name__
                raise ValueError(
                    f"it returned {name} as {'an array of ' if own else ''}{kind}; the inputs are {home.name}"
                )
            spec = describe(name, result, is_copied=True)
            if name in counted and spec.shape[:1] <= right.shape[:1]:
                outputs[counted[name]].fill(spec.shape[0])
                output, right = output[: spec.shape[0]], replace(right, shape=(*spec.shape[:1], *right.shape[1:]))
            if spec != right and not (call.of_any_type and spec.shape == right.shape):
                raise ValueError(f"it returned {name} as {_say(spec)}; {self.expectation} {_say(right)}")
            home.copy(result, output, right.type)

    def count_rows(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Return result → the output that holds its number of rows, for results with a variable number of rows."""
        return {} if self.outputs else {name: f"{name}_rows" for name in self.at_most if name in found}


def _say(spec: Array) -> str:
    return f"{spec.dtype} of shape {spec.shape}" if spec.shape else f"a single {spec.dtype}"


def _ignore(returned: Any) -> None:
    """Ignore the return value of a function that writes its results."""


def _put_unchanged(
    put: Callable[[Any], None], state: Mapping[str, Any], before: Mapping[str, Any], returned: Any
) -> None:
    """Copy results, unless the function has changed a parameter or a buffer of its module.

    Raises:
        ValueError: it has.
    """
    changed = []
    for name, each in state.items():
        same = (each.detach() == before[name]) | (each != each) & (before[name] != before[name])
        if not bool(same.all()):
            changed.append(name)
            each.detach().copy_(before[name])  # other variants may work with the same module
    if changed:
        raise ValueError(f"it changed {changed[0]} of its module, which is an input; call eval() on the module first")
    put(returned)
