"""Read constraints on tunables: a text such as "block_x * block_y <= 1024", a function, or several of both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from cuprof.core.errors import FamilyError
from cuprof.core.point import Point

Constraint = Callable[[Point, Point], str | None]
"""Takes (problem, tunables) and returns why the combination is not allowed, or None if it is."""
GivenConstraint: TypeAlias = "str | Callable[..., Any] | Sequence[str | Callable[..., Any]] | None"

FUNCTIONS = {each.__name__: each for each in (abs, all, any, bool, divmod, float, int, len, max, min, pow, round, sum)}
"""Functions that a constraint's text may call."""


def read_constraint(given: GivenConstraint, known: Sequence[str]) -> Constraint | None:
    """Return constraints as one function (problem, tunables) → reason or None.

    Args:
        given: a text is a condition that must hold. A function whose parameters are all `known` gets their values, and
            returns whether they are allowed, or why not; any other function gets (problem, tunables).
        known: the tunables and the problem axes.

    Raises:
        FamilyError: a text is not an expression, or uses an unknown name.
    """
    if given is None:
        return None
    if not isinstance(given, str) and isinstance(given, Sequence):
        parts = [part for part in (read_constraint(each, known) for each in given) if part is not None]

        def constraints(problem: Point, tunables: Point) -> str | None:
            for part in parts:
                if reason := part(problem, tunables):
                    return reason
            return None

        return constraints
    if isinstance(given, str):
        names, function = compile_expression(given, tuple(known))
        reason = f"not {given.strip()}"
    else:
        function = given
        names = tuple(inspect.signature(given).parameters)
        if not names or not set(names) <= {*known}:
            return given
        reason = "its constraint does not hold"

    def constraint(problem: Point, tunables: Point) -> str | None:
        found = function(*[tunables[name] if name in tunables else problem[name] for name in names])
        return found if isinstance(found, str) else None if found is None or found else reason

    return constraint


@lru_cache(maxsize=256)
def compile_expression(text: str, known: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[..., Any]]:
    """Return the known names that an expression uses, and a function of them.

    Raises:
        FamilyError: the text is not an expression, or uses an unknown name.
    """
    try:
        used = compile(text.strip(), "<constraint>", "eval").co_names
        names = tuple(name for name in known if name in used)
        function: Callable[..., Any] = eval(
            f"lambda {', '.join(names)}: ({text.strip()}\n)", {"__builtins__": FUNCTIONS}
        )
    except (SyntaxError, ValueError) as error:
        raise FamilyError(f"constraint {text!r} is not an expression: {error.args[0]}") from None
    if unknown := set(used) - {*known} - FUNCTIONS.keys():
        raise FamilyError(f"constraint {text!r} names {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return names, function
