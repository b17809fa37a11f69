"""Functions on arrays of a library as variants: bound to a session's arrays, their results brought back untimed."""

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
from cuprof.families.callables import arrange, list_state
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
        specs = {**sample.signature.inputs, **sample.signature.outputs}
        by_name = arrange(function, call.arguments, tunables) if call.by_name else None
        placed, named = by_name or (call.arguments, [])

        def give() -> Callable[[], Any]:
            views = {name: home.view(arrays[name], specs[name].type) for name in (*placed, *named) if name in arrays}
            known = {**call.numbers, **views}
            keywords = {name: known[name] for name in named}
            return partial(function, *(known[name] for name in placed), **keywords, **tunables)

        # A library apart orders its work behind ours whenever it is given an array.
        run = (lambda: home.finish(give()())) if home.is_apart else give()
        state = list_state(function)
        if not (call.returns or state):
            return run
        before = {name: each.detach().clone() for name, each in state.items()}

        def put(returned: Any) -> None:
            _refuse_changes(state, before)
            if call.returns:
                self._deliver(call, home, outputs, sample.signature, returned)

        return Call(run, put)

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
            output, right = outputs[name], signature.outputs[name]
            result = _as_array(name, found[name], home, right)
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


def _as_array(name: str, result: Any, home: Home, right: Array) -> Any:
    """Return a result, also a single number, as an array of the inputs' library."""
    own = home_of(result)
    if own is None and isinstance(result, int | float | complex | np.generic):
        kind = None if isinstance(result, np.generic) else right.type
        return home.bring(np.asarray(result, kind))
    if own is not home:
        kind_name = f"an array of {own.name}" if own else type(result).__name__
        raise ValueError(f"it returned {name} as {kind_name}; the inputs are {home.name}")
    return result


def _say(spec: Array) -> str:
    return f"{spec.dtype} of shape {spec.shape}" if spec.shape else f"a single {spec.dtype}"


def _refuse_changes(state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a function has changed a parameter or a buffer of its module; put them back."""
    changed = []
    for name, each in state.items():
        same = (each.detach() == before[name]) | (each != each) & (before[name] != before[name])
        if not bool(same.all()):
            changed.append(name)
            each.detach().copy_(before[name])  # other variants may work with the same module
    if changed:
        raise ValueError(f"it changed {changed[0]} of its module, which is an input; call eval() on the module first")
