"""The inputs of a computation's implementations: drawn by a function, or given once."""

from __future__ import annotations

import hashlib
import inspect
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError, UsageError
from cuprof.core.point import Point
from cuprof.families.arrays import permute, to_host
from cuprof.families.calling import list_parameters, unwrap
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

    Attributes:
        are_named: whether the arguments last drawn came by name, and not in an order.
    """

    def __init__(self, given: Any, kernels: Sequence[Kernel], place: Path) -> None:
        self.given, self.kernels, self.place = given, kernels, place
        self.parameters = dict(inspect.signature(given).parameters) if callable(given) else {}
        self.are_named = isinstance(given, Mapping)

    def list_axes(self) -> tuple[Axis, ...]:
        """Return the problem axes: the function's parameters, or one that says that nothing can be chosen."""
        axes = [_axis(one) for name, one in self.parameters.items() if name != GENERATOR]
        return tuple(axes) or (GIVEN,)

    def draw(self, problem: Point, rng: np.random.Generator) -> dict[str, Any]:
        """Return the arguments by name, in the order in which functions take them."""
        drawn = self.given
        if callable(self.given):
            asked: dict[str, Any] = {} if problem.keys() == {GIVEN.name} else dict(problem)
            if GENERATOR in self.parameters:
                asked[GENERATOR] = rng
            else:
                seed_all(int(rng.integers(2**31)))
            drawn = blamed(self.place, "inputs", problem, partial(self.given, **asked))
        self.are_named = isinstance(drawn, Mapping)
        if isinstance(drawn, Mapping):
            return {str(name): value for name, value in drawn.items()}
        values = list(drawn) if isinstance(drawn, tuple | list) else [drawn]
        return dict(zip(self._argument_names(len(values)), values, strict=True))

    def draw_arrays(self, names: Iterable[str], problem: Point, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return some of the arguments on the host; those given once are permuted, see `permute`."""
        drawn = self.draw(problem, rng)
        arrays = {name: to_host(drawn[name], f"input {name}") for name in names}
        return arrays if callable(self.given) else {name: permute(one, rng) for name, one in arrays.items()}

    def digest(self) -> str:
        """Return a digest that distinguishes the arrays and numbers that were given once."""
        digest = hashlib.sha256()
        for name, value in self.draw(Point(), np.random.default_rng()).items():
            array = to_host(value, f"input {name}")
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _argument_names(self, many: int) -> list[str]:
        """Return this many parameter names of the first function that has enough, else x0, x1, …"""
        for one in self.kernels:
            names = list_parameters(unwrap(one.jit) if one.function is None else one.function)
            names = [name for name in names if name not in {**one.tunables, **one.derived}]
            if len(names) >= many:
                return names[:many]
        return [f"x{number}" for number in range(many)]


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
    name, given = parameter.name, parameter.default
    if isinstance(given, bool):
        return Axis(name, given, choices=(given, not given))
    if isinstance(given, str) or (isinstance(given, tuple | list) and given):
        choices = (given,) if isinstance(given, str) else tuple(given)
        return Axis(name, choices[0], choices=choices)
    if isinstance(given, int):
        return Axis(name, given, low=0 if given == 0 else 1)
    raise UsageError(
        f"inputs: parameter {name} needs a default, a whole number (n=2**20) or a tuple of choices; "
        f"it is a problem axis. Only {GENERATOR} has none"
    )


def seed_all(seed: int) -> None:
    """Seed the generators that a function without one of its own draws from."""
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.random.seed(seed)
