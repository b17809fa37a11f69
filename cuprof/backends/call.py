"""A variant's own function, prepared on a session's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cuprof.backends.switches import keep_own
from cuprof.core.point import Point
from cuprof.families import Call, Variant


def prepare_call(
    variant: Variant, problem: Point, tunables: Point, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[Callable[[], object], Callable[[], object] | None]:
    """Let a variant prepare itself; return the function to time, and one that delivers returned results.

    Library switches that the variant turns stay in effect only while it runs.

    Raises:
        TypeError: a family's own function wants something called untimed.
    """
    made: list[Callable[[], object]] = []

    def prepare() -> Callable[[], object]:
        made.append(variant.make(problem, tunables, own_views(inputs), own_views(outputs)))
        return made[0]

    function = keep_own(prepare)
    if not isinstance(made[0], Call):
        return function, None
    home = getattr(getattr(variant.make, "func", variant.make), "__globals__", {}).get("__name__", "")
    if not home.startswith("cuprof."):
        raise TypeError("it returned a Call, whose `put` is not timed; return a function that writes into the outputs")
    return function, made[0].deliver


def own_views(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return NumPy or CuPy arrays for one variant only.

    No other variant sees its changes to their shape, type or flags, or the arrays that it puts in their place.
    """
    return _Views({name: array.view() for name, array in arrays.items()})


class _Views(dict[str, Any]):
    """Arrays in whose place none may be put: `outputs["y"] += x` writes into the one that is there."""

    def __setitem__(self, name: str, array: Any) -> None:
        if array is not self.get(name):
            raise TypeError(f'{name} is replaced by another array; write into the one that is there: ["{name}"][:] = …')
