"""Arithmetic in the values of an axis: `2**24`, `3*1024`, `(2**20 + 1) // 2`.

The text is parsed, never executed, and every intermediate result is bounded, so `9**9**9` is refused at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from cuprof.core.errors import SelectionError

MAX_CHARACTERS = 200
MAX_BITS = 128
"""Bits of the largest whole number that may occur on the way; more than any size or count needs."""

ALLOWED = "whole numbers, decimals, + - * / // % ** and parentheses"

Number = int | float

_NOTHING: Mapping[str, Number] = MappingProxyType({})
_CHARACTERS = re.compile(r"[0-9a-fA-FxXoO_.+\-*/%^() \t]+")
_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


class ExpressionError(SelectionError):
    """Report text that is no arithmetic, or whose value is out of bounds.

    Args:
        text: what was given.
        fault: what is the matter with it ("is not a number", "divides by zero", "is too large").
    """

    def __init__(self, text: str, fault: str) -> None:
        self.text, self.fault = shorten(text), fault
        super().__init__(f"{self.text!r} {fault}; allowed are {ALLOWED}")

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, str]]:
        return ExpressionError, (self.text, self.fault)


def evaluate(text: str | Number, known: Mapping[str, Number] = _NOTHING) -> Number:
    """Return the value of an arithmetic expression, a whole number wherever the result is exactly one.

    `^` is read as the power that it means on paper and in cuprof's own labels. A number is returned as it is.

    Args:
        known: the names that the text may use, each with its value.

    Raises:
        ExpressionError: the text is no arithmetic on numbers, is not finite, or passes the bounds.
    """
    if isinstance(text, bool):
        raise ExpressionError(str(text), "is not a number")
    if isinstance(text, int | float):
        return _bounded(str(text), text)
    stripped = text.strip()
    if len(stripped) > MAX_CHARACTERS:
        raise ExpressionError(text, f"has more than {MAX_CHARACTERS} characters")
    if not known and not _CHARACTERS.fullmatch(stripped):
        raise ExpressionError(text, "is not a number")
    try:
        tree = ast.parse(stripped.replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ExpressionError(text, "is not a number") from None
    return _value(text, tree.body, known)


def shorten(text: str, most: int = 60) -> str:
    """Return text that fits into an error's line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _value(text: str, node: ast.expr, known: Mapping[str, Number]) -> Number:
    if isinstance(node, ast.Name) and node.id in known:
        return _bounded(text, known[node.id])
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(text, node.value)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(text, node.operand, known))
    if isinstance(node, ast.BinOp):
        left, right = _value(text, node.left, known), _value(text, node.right, known)
        try:
            if isinstance(node.op, ast.Pow):
                return _bounded(text, _power(text, left, right))
            if isinstance(node.op, ast.Div):
                return _bounded(text, _quotient(left, right))
            if type(node.op) in _BINARY:
                return _bounded(text, _BINARY[type(node.op)](left, right))
        except ZeroDivisionError:
            raise ExpressionError(text, "divides by zero") from None
        except OverflowError:
            raise ExpressionError(text, "is too large") from None
    raise ExpressionError(text, "is not a number")


def _power(text: str, base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if base in (-1, 0, 1):
            return base if exponent % 2 else abs(base)
        if (abs(base).bit_length() - 1) * exponent > MAX_BITS:
            raise ExpressionError(text, "is too large")
    elif base < 0 and not float(exponent).is_integer():
        raise ExpressionError(text, "is not a real number")
    power: Number = base**exponent
    return power


def _quotient(left: Number, right: Number) -> Number:
    """Divide without losing digits where the result is whole: 2**60 / 3 * 3 aside, 2**62 / 2 is 2**61 exactly."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _bounded(text: str, value: object) -> Number:
    if isinstance(value, int) and value.bit_length() <= MAX_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, complex):
        raise ExpressionError(text, "is not a real number")
    raise ExpressionError(text, "is not finite" if isinstance(value, float) and math.isnan(value) else "is too large")
