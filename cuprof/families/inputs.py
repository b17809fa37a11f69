"""The inputs of a computation's implementations: drawn by a function, or given once."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError, UsageError
from cuprof.core.point import Point
from cuprof.families.arrays import permute, to_host
from cuprof.families.callables import list_parameters, unwrap
from cuprof.families.kernel import Kernel
from cuprof.families.model import Axis
from cuprof.families.trace import blame

GENERATOR = "rng"
"""The parameter of an inputs function that receives a seeded NumPy generator."""
GIVEN = Axis("inputs", "given", choices=("given",), description="arrays that were given once, permuted for each set")


class Inputs:
    """Draw the arguments of one computation.

    Args:
        given: a function, or arrays and numbers as a sequence or by name.
        kernels: whose parameters name what comes without names.
        place: the family's folder, or the file that it is.
    """

    def __init__(self, given: Any, kernels: Sequence[Kernel], place: Path) -> None:
        self.given, self.kernels, self.place = given, kernels, place
        self.function: Callable[..., Any] | None = given if callable(given) else None
        self.parameters = dict(inspect.signature(given).parameters) if callable(given) else {}
        self._are_named: bool | None = None

    def list_axes(self) -> tuple[Axis, ...]:
        """Return the problem axes: the function's parameters, or one that says that nothing can be chosen."""
        axes = [_axis(one) for name, one in self.parameters.items() if name != GENERATOR]
        return tuple(axes) or (GIVEN,)

    def draw(self, problem: Point, rng: np.random.Generator) -> dict[str, Any]:
        """Return the arguments by name, in the order in which functions take them."""
        drawn = self.given
        if self.function is not None:
            asked: dict[str, Any] = {} if problem.keys() == {GIVEN.name} else dict(problem)
            if GENERATOR in self.parameters:
                asked[GENERATOR] = rng
            else:
                seed_all(int(rng.integers(2**31)))
            drawn = blamed(self.place, "inputs", problem, lambda: self.given(**asked))
        self._are_named = isinstance(drawn, Mapping)
        if isinstance(drawn, Mapping):
            return {str(name): value for name, value in drawn.items()}
        values = list(drawn) if isinstance(drawn, tuple | list) else [drawn]
        return dict(zip(self._argument_names(len(values)), values, strict=True))

    def are_named(self, problem: Point) -> bool:
        """Return whether the arguments come by name, and not in an order."""
        if self._are_named is None:
            self.draw(problem, np.random.default_rng(0))
        return bool(self._are_named)

    def draw_arrays(self, names: Iterable[str], problem: Point, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return some of the arguments on the host; those given once are permuted, see `permute`."""
        drawn = self.draw(problem, rng)
        if self.function is not None:
            return {name: to_host(drawn[name], f"input {name}") for name in names}
        return {name: permute(drawn[name], rng, f"input {name}") for name in names}

    def _argument_names(self, count: int) -> list[str]:
        """Return this many parameter names of the first function that has enough, else x0, x1, …"""
        for one in self.kernels:
            names = list_parameters(unwrap(one.jit) if one.function is None else one.function)
            names = [name for name in names or () if name not in {**one.tunables, **one.derived}]
            if len(names) >= count:
                return names[:count]
        return [f"x{number}" for number in range(count)]


def blamed(place: Path, what: str, problem: Point, function: Callable[[], Any]) -> Any:
    """Return the result of a user's function; its errors become a `FamilyError` that names the line.

    Args:
        place: the family's folder, or its single file.
        what: its display name.
    """
    try:
        return function()
    except (Exception, SystemExit) as error:
        folder = place.parent if place.is_file() else place
        hint = "; name what is worked on in place: in_place=" if "read-only" in str(error) else ""
        raise FamilyError(blame(error, folder, f"{what}() at {problem.label}") + hint) from error


def _axis(parameter: inspect.Parameter) -> Axis:
    """Return the problem axis that a parameter of an inputs function is: its default, or several, the first first."""
    given = parameter.default
    if isinstance(given, bool | str):
        return Axis(parameter.name, given, choices=(given,) if isinstance(given, str) else (given, not given))
    if isinstance(given, tuple | list) and given:
        return Axis(parameter.name, given[0], choices=tuple(given))
    if isinstance(given, int):
        return Axis(parameter.name, given, low=0 if given == 0 else 1)
    raise UsageError(
        f"inputs: parameter {parameter.name} needs a default, a whole number (n=2**20) or a tuple of choices; "
        f"it is a problem axis. Only {GENERATOR} has none"
    )


def seed_all(seed: int) -> None:
    """Seed the generators that a function without one of its own draws from."""
    random.seed(seed)
    np.random.seed(seed)
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None:
        torch.manual_seed(seed)
    if cupy is not None:
        cupy.random.seed(seed)
