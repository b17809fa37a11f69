"""The inputs of a computation's implementations: drawn by a function, or given once."""

from __future__ import annotations

import hashlib
import inspect
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError, UsageError
from cuprof.core.point import Point
from cuprof.families.arrays import to_host
from cuprof.families.calling import list_parameters, unwrap
from cuprof.families.kernel import Kernel
from cuprof.families.model import Axis
from cuprof.families.trace import blame

GENERATOR = "rng"
"""The parameter of an inputs function that receives a seeded NumPy generator."""
GIVEN = Axis("inputs", "given", choices=("given",), description="arrays that were given once, permuted for each set")


def list_axes(given: Any) -> tuple[Axis, ...]:
    """Return the problem axes: the parameters of a function, or one that says that nothing can be chosen."""
    parameters = inspect.signature(given).parameters.values() if callable(given) else ()
    return tuple(_axis(one) for one in parameters if one.name != GENERATOR) or (GIVEN,)


def draw(
    given: Any, kernels: Sequence[Kernel], place: Path, problem: Point, rng: np.random.Generator
) -> tuple[dict[str, Any], bool]:
    """Return the arguments of one computation by name, in the order in which functions take them.

    The second part says whether they came by name, and not in an order.

    Args:
        given: a function, or arrays and numbers as a sequence or by name.
        kernels: whose parameters name what comes without names.
        place: the family's folder, or the file that it is.
    """
    drawn = given
    if callable(given):
        asked: dict[str, Any] = {} if problem.keys() == {GIVEN.name} else dict(problem)
        if GENERATOR in inspect.signature(given).parameters:
            asked[GENERATOR] = rng
        else:
            seed_all(rng)
        drawn = blamed(place, "inputs", problem, partial(given, **asked))
    if isinstance(drawn, Mapping):
        return {str(name): value for name, value in drawn.items()}, True
    values = list(drawn) if isinstance(drawn, tuple | list) else [drawn]
    return dict(zip(_argument_names(kernels, len(values)), values, strict=True)), False


def digest(arguments: Mapping[str, Any]) -> str:
    """Return a digest that distinguishes the arrays and numbers that were given once."""
    found = hashlib.sha256()
    for name, value in arguments.items():
        array = to_host(value, f"input {name}")
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _argument_names(kernels: Sequence[Kernel], many: int) -> list[str]:
    """Return this many parameter names of the first function that has enough, else x0, x1, …"""
    for one in kernels:
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


def seed_all(rng: np.random.Generator) -> None:
    """Seed the generators that a function without one of its own draws from."""
    seed = int(rng.integers(2**31))
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.random.seed(seed)
