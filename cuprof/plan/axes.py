"""Match values from the command line or a configuration with the axes and tunables that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from cuprof.core.errors import SelectionError
from cuprof.core.expression import ExpressionError, evaluate, shorten
from cuprof.core.point import Coordinate
from cuprof.core.text import list_first
from cuprof.families.model import Axis, Variant, is_among

ALL = "all"
"""The value that stands for every choice of an axis, every allowed value of a tunable, or every variant."""

EXACT = 2**53
"""Whole numbers up to this size are exact as floats, so that 1e6 may stand for one million."""

MOST_NAMES = 4
"""How many variants a message names."""


def axis_values(axis: Axis, given: Sequence[Coordinate]) -> tuple[Coordinate, ...]:
    """Return the values of a problem axis in the order given, arithmetic evaluated, each once.

    Raises:
        SelectionError: a value is not a number where one is needed, or is not on the axis.
    """
    values: list[Coordinate] = []
    for value in given:
        if not axis.choices:
            values.append(_whole(axis, value))
        elif found := _take(value, axis.choices):
            values += found
        else:
            raise _refusal(axis, value, "is not allowed")
    return tuple(dict.fromkeys(values))


def tunable_values(
    name: str, given: Sequence[Coordinate], variants: Sequence[Variant]
) -> dict[str, tuple[tuple[Coordinate, ...], tuple[Coordinate, ...]]]:
    """Return variant name → those of a tunable's values that it allows, and those that it does not.

    Both are in the order given. At least one of the variants must allow a value; the others go without it.

    Args:
        given: its values, `all` for every allowed one.
        variants: the selected variants; those without the tunable are passed over.

    Raises:
        SelectionError: none of the variants allows a value; the message says what each of them allows.
    """
    allowed = {variant.name: tunable.values for variant in variants if (tunable := variant.tunable(name))}
    for value in given:
        if not any(_take(value, each) for each in allowed.values()):
            said = f"tune.{name}={shorten(str(value))} is not allowed"
            raise SelectionError(f"{said}: {_describe_allowed(name, allowed)}")
    return {
        variant: (
            tuple(dict.fromkeys(one for value in given for one in _take(value, each))),
            tuple(dict.fromkeys(value for value in given if not _take(value, each))),
        )
        for variant, each in allowed.items()
    }


def match(value: Coordinate, allowed: Sequence[Coordinate]) -> Coordinate | None:
    """Return the allowed value that `value` means, or None.

    Where the allowed values are numbers, text is evaluated ("2**7" is 128); where they are booleans, "true" and
    "false" are read; where they are text, a number stands for its text. 1 is never true.
    """
    if is_among(value, allowed):
        return value
    meant = _read(value) if isinstance(value, str) else None if isinstance(value, bool) else value
    for one in allowed:
        if isinstance(one, bool) or isinstance(meant, bool):
            if one is meant:
                return one
        elif isinstance(one, str):
            if not isinstance(value, str) and one.lower() == str(value).lower():
                return one
        elif meant is not None and one == meant:
            return one
    return None


def _take(value: Coordinate, allowed: Sequence[Coordinate]) -> Sequence[Coordinate]:
    """Return what a value stands for among those that are allowed; nothing if it is none of them."""
    if value == ALL and ALL not in allowed:
        return allowed
    found = match(value, allowed)
    return () if found is None else (found,)


def _read(text: str) -> Coordinate | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    with suppress(ExpressionError):
        return evaluate(text)
    return None


def _whole(axis: Axis, value: Coordinate) -> int:
    try:
        number = evaluate(value)
    except ExpressionError as error:
        raise _refusal(axis, value, error.fault) from None
    if isinstance(number, float):
        if not number.is_integer() or abs(number) > EXACT:
            raise _refusal(axis, value, "is not a whole number")
        number = int(number)
    if not axis.allows(number):
        raise _refusal(axis, value, "is out of range")
    return number


def _refusal(axis: Axis, value: Coordinate, fault: str) -> SelectionError:
    hint = "" if axis.choices else " (arithmetic such as 2**24 works)"
    said = f"problem.{axis.name}={shorten(str(value))} {fault}"
    return SelectionError(f"{said}; problem axis {axis.name} takes {axis.domain()}{hint}")


def _describe_allowed(name: str, allowed: Mapping[str, Sequence[Coordinate]]) -> str:
    """Return "plain and shuffle take block = 64, 128; vector takes block = 256"."""
    by_values: dict[tuple[Coordinate, ...], list[str]] = {}
    for variant, values in allowed.items():
        by_values.setdefault(tuple(values), []).append(variant)
    said = []
    for values, names in by_values.items():
        few = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        who = list_first(names, MOST_NAMES) if len(names) > MOST_NAMES else few
        said.append(f"{who} {'take' if len(names) > 1 else 'takes'} {name} = {', '.join(map(str, values))}")
    return "; ".join(said)
