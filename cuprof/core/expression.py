"""Safe arithmetic: `2**24` as the value of an axis, `block_x * block_y <= 1024` as a constraint or a definition's axis.

The text is parsed, never executed, and every intermediate value is bounded, so `9**9**9` is refused at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cuprof.core.errors import SelectionError

MAX_CHARACTERS = 200
"""Characters of a number on an axis."""
MAX_EXPRESSION = 1000
"""Characters of an expression with names."""
MAX_DEPTH = 100
MAX_BITS = 128
"""Bits of any whole number on the way to the result; more than any size or count needs."""

ALLOWED = "whole numbers, decimals, + - * / // % ** and parentheses"
_CHARACTERS = re.compile(r"[0-9a-fA-FxXoO_.+\-*/%^() \t]+")

Number = int | float
Value = Any
"""A number, a text, a truth value, None, or a tuple of such."""


class ExpressionError(SelectionError):
    """Report text that is no valid expression, or whose value is out of bounds: a `fault` such as "divides by zero"."""

    def __init__(self, text: str, fault: str, allowed: str = ALLOWED) -> None:
        self.fault = fault
        super().__init__(f"{shorten(text)!r} {fault}; allowed are {allowed}")


def evaluate(text: str | Number) -> Number:
    """Return the value of arithmetic on numbers, a whole number wherever the result is exactly one.

    `^` means power, as on paper and in cuprof's own labels. A number is returned as it is.

    Raises:
        ExpressionError: the text is not arithmetic on numbers, is not finite, or exceeds the bounds.
    """
    stripped = str(text).strip()
    try:
        if isinstance(text, str) and len(stripped) > MAX_CHARACTERS:
            raise _FaultError(f"has more than {MAX_CHARACTERS} characters")
        if isinstance(text, str) and not _CHARACTERS.fullmatch(stripped):
            raise _LanguageError
        value: Number = _compute(_parse(stripped.replace("^", "**"), ()), {}) if isinstance(text, str) else _bound(text)
        if isinstance(value, bool) or not isinstance(value, Number):  # "()" is a tuple of none
            raise _LanguageError
        return value
    except _FaultError as error:
        fault = "is not a number" if isinstance(error, _LanguageError) else str(error)
        raise ExpressionError(stripped, fault) from None


def compute(text: str, values: Mapping[str, Value]) -> Value:
    """Return the value of arithmetic, comparisons, `and`, `or`, `not`, `… if … else …` at values of the names.

    An expression has no lambda, attribute, subscript, comprehension or assignment, and calls only `FUNCTIONS`.

    Raises:
        ExpressionError: the text is not such an expression or uses another name, an operation is not defined on these
            values, or a value exceeds the bounds.
    """
    try:
        if len(text.strip()) > MAX_EXPRESSION:
            raise _FaultError(f"has more than {MAX_EXPRESSION} characters")
        return _compute(_parse(text.strip(), values), values)
    except _FaultError as error:
        names = f"the names {', '.join(values)}, " if values else ""
        allowed = f"{names}numbers, arithmetic, comparisons and the functions {', '.join(sorted(FUNCTIONS))}"
        raise ExpressionError(text.strip(), str(error), allowed) from None


def shorten(text: str, most: int = 60) -> str:
    """Return text that fits into an error's line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _FaultError(Exception):
    """Report a fault in an expression, without the expression's text."""


class _LanguageError(_FaultError):
    """It has something that the language does not have."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if base in (-1, 0, 1):
            return base if exponent % 2 else abs(base)
        if (abs(base).bit_length() - 1) * exponent > MAX_BITS:
            raise OverflowError
    elif base < 0 and not float(exponent).is_integer():
        raise _FaultError("is not a real number")
    power: Number = base**exponent
    return power


def _divide(left: Number, right: Number) -> Number:
    """Divide without losing digits where the result is whole: 2**60 / 3 * 3 aside, 2**62 / 2 is 2**61 exactly."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _round(number: Number, digits: int = 0) -> Number:
    if not -MAX_BITS <= digits <= MAX_BITS:  # Python would compute 10 ** -digits
        raise OverflowError
    return round(number, digits or None)


_OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, among: one in among,
    ast.NotIn: lambda one, among: one not in among,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in (abs, all, any, bool, divmod, float, int, len, max, min, sum)},
    "ceil": math.ceil,
    "floor": math.floor,
    "pow": _power,
    "round": _round,
}
"""Functions that an expression may call, by position only."""
_FORMS = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Name, ast.Constant)
_PARTS = (*_FORMS, *_OPERATIONS, ast.And, ast.Or, ast.Load)


def _parse(text: str, known: Collection[str]) -> ast.expr:
    """Return the syntax tree of an expression that has only what the language has, and only known names."""
    try:
        with warnings.catch_warnings():  # of "1or 2"
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _LanguageError("is not an expression") from None
    level: list[ast.AST] = [tree]
    with suppress(RecursionError):  # of ast.unparse, for the name of what is called
        for _ in range(MAX_DEPTH):
            level = [part for node in level for part in _list_parts(node, known)]
    if level:
        raise _FaultError("is nested too deeply")
    return tree


def _list_parts(node: ast.AST, known: Collection[str]) -> Iterator[ast.AST]:
    """Yield the parts of a node; raise where the language does not have it."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise _LanguageError(f"calls {shorten(ast.unparse(node.func))}, which expressions cannot")
        yield from node.args
    elif not isinstance(node, _PARTS):
        name = type(node).__name__
        raise _LanguageError(f"holds {'an' if name[0] in 'AEIOU' else 'a'} {name}, which expressions do not have")
    elif isinstance(node, ast.Name) and node.id not in known:
        raise _LanguageError(f"uses the unknown name {shorten(node.id)}")
    elif isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | None):
        raise _LanguageError(f"holds {shorten(repr(node.value))}, which expressions do not have")
    else:
        yield from ast.iter_child_nodes(node)


def _compute(node: ast.expr, values: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant():
            return _bound(node.value)
        case ast.Name():
            return _bound(values[node.id])
        case ast.Tuple() | ast.List():
            return tuple(_compute(each, values) for each in node.elts)
        case ast.IfExp():
            return _compute(node.body if _compute(node.test, values) else node.orelse, values)
        case ast.BoolOp():
            for each in node.values:
                value = _compute(each, values)
                if bool(value) is isinstance(node.op, ast.Or):
                    break
            return value
        case ast.Compare():
            left, pairs = _compute(node.left, values), zip(node.ops, node.comparators, strict=True)
            return all(_apply(_OPERATIONS[type(each)], left, left := _compute(right, values)) for each, right in pairs)
        case ast.UnaryOp():
            return _apply(_OPERATIONS[type(node.op)], _compute(node.operand, values))
        case ast.BinOp():
            sides = _compute(node.left, values), _compute(node.right, values)
            return _apply(_OPERATIONS[type(node.op)], *sides, only_numbers=True)
        case ast.Call(func=ast.Name(id=name)):
            return _apply(FUNCTIONS[name], *(_compute(each, values) for each in node.args))
    raise _LanguageError("is not an expression")


def _apply(function: Callable[..., Value], *values: Value, only_numbers: bool = False) -> Value:
    """Call a function; with `only_numbers`, refuse texts and tuples, which could grow without bound."""
    try:
        if only_numbers and not all(isinstance(value, int | float) for value in values):
            raise TypeError
        return _bound(function(*values))
    except ZeroDivisionError:
        raise _FaultError("divides by zero") from None
    except OverflowError:
        raise _FaultError("is too large") from None
    except (TypeError, ValueError):
        shown = " and ".join(shorten(repr(value), 20) for value in values)
        raise _FaultError(f"has an operation that is not defined on {shown}") from None


def _bound(value: Value) -> Value:
    if isinstance(value, complex):
        raise _FaultError("is not a real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise _FaultError("is not finite" if math.isnan(value) else "is too large")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _FaultError("is too large")
    return value
