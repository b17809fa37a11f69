"""Match values from the command line or a configuration with the axes and tunables that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from cuprof.core.errors import SelectionError
from cuprof.core.expression import ExpressionError, evaluate, shorten
from cuprof.core.point import Coordinate
from cuprof.core.text import list_first
from cuprof.families.model import Axis, Variant

ALL = "all"
"""The value that stands for every choice of an axis, every allowed value of a tunable, or every variant."""

EXACT = 2**53
"""Whole numbers up to this size are exact as floats, so that 1e6 may stand for one million."""

MOST_NAMES = 4
"""How many variants a message names."""


def axis_values(axis: Axis, given: Iterable[Coordinate]) -> tuple[Coordinate, ...]:
    """Return the values of a problem axis in the order given, arithmetic evaluated, each once.

    Raises:
        SelectionError: a value is not a number where one is needed, or is not on the axis.
    """
    values: list[Coordinate] = []
    for value in given:
        if value == ALL and axis.choices and ALL not in axis.choices:
            values += axis.choices
        else:
            values.append(_choice(axis, value) if axis.choices else _whole(axis, value))
    return tuple(dict.fromkeys(values))


def tunable_values(
    name: str, given: Iterable[Coordinate], variants: Sequence[Variant]
) -> dict[str, tuple[tuple[Coordinate, ...], tuple[Coordinate, ...]]]:
    """Return variant name → those of a tunable's values that it allows, and those that it does not.

    Both are in the order given. At least one of the variants must allow a value; the others go without it.

    Args:
        name: the tunable.
        given: its values, `all` for every allowed one.
        variants: the selected variants that have the tunable.

    Raises:
        SelectionError: none of the variants allows a value; the message says what each of them allows.
    """
    values = list(given)
    found = {variant.name: [_take(value, _allowed(name, variant)) for value in values] for variant in variants}
    for value, *taken in zip(values, *found.values(), strict=True):
        if not any(taken):
            raise SelectionError(f"tune.{name}={_show(value)} is not allowed: {_allowances(name, variants)}")
    return {
        variant: (
            tuple(dict.fromkeys(chain.from_iterable(taken))),
            tuple(dict.fromkeys(value for value, each in zip(values, taken, strict=True) if not each)),
        )
        for variant, taken in found.items()
    }


def match(value: Coordinate, allowed: Sequence[Coordinate]) -> Coordinate | None:
    """Return the allowed value that `value` means, or None.

    Where the allowed values are numbers, text is evaluated ("2**7" is 128); where they are booleans, "true" and
    "false" are read; where they are text, a number stands for its text. 1 is never true.
    """
    for one in allowed:
        if type(one) is type(value) and one == value:
            return one
    if isinstance(value, str):
        meant = _read(value)
    elif isinstance(value, bool):
        meant = None
    else:
        meant = value
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
    """Return what a value stands for among those that a tunable allows; nothing if it allows none."""
    if value == ALL and ALL not in allowed:
        return allowed
    found = match(value, allowed)
    return () if found is None else (found,)


def _read(text: str) -> Coordinate | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return evaluate(text)
    except ExpressionError:
        return None


def _choice(axis: Axis, value: Coordinate) -> Coordinate:
    found = match(value, axis.choices)
    if found is None:
        raise _refusal(axis, value, "is not allowed")
    return found


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
    return SelectionError(
        f"problem.{axis.name}={_show(value)} {fault}; problem axis {axis.name} takes {axis.domain()}{hint}"
    )


def _allowed(name: str, variant: Variant) -> tuple[Coordinate, ...]:
    tunable = variant.tunable(name)
    return tunable.values if tunable else ()


def _allowances(name: str, variants: Sequence[Variant]) -> str:
    """Return "plain and shuffle take block = 64, 128; vector takes block = 256"."""
    by_values: dict[tuple[Coordinate, ...], list[str]] = {}
    for variant in variants:
        by_values.setdefault(_allowed(name, variant), []).append(variant.name)
    return "; ".join(
        f"{_join(names)} {'take' if len(names) > 1 else 'takes'} {name} = {', '.join(map(str, values))}"
        for values, names in by_values.items()
    )


def _join(names: list[str]) -> str:
    if len(names) > MOST_NAMES:
        return list_first(names, MOST_NAMES)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _show(value: Coordinate) -> str:
    return shorten(str(value))
