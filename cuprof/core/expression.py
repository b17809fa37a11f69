"""Safe arithmetic: `2**24` as the value of an axis, `block_x * block_y <= 1024` as a constraint or a definition's axis.

The text is parsed, never executed, and every intermediate value is bounded, so `9**9**9` is refused at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuprof.core.errors import SelectionError

MAX_CHARACTERS = 200
"""Characters of a number on an axis."""
MAX_EXPRESSION = 1000
"""Characters of an expression with names."""
MAX_DEPTH = 50
MAX_BITS = 128
"""Bits of any whole number on the way to the result; more than any size or count needs."""

ALLOWED = "whole numbers, decimals, + - * / // % ** and parentheses"
_CHARACTERS = re.compile(r"[0-9a-fA-FxXoO_.+\-*/%^() \t]+")

Number = int | float
Value = Any
"""A number, a text, a truth value, None, or a tuple of such."""
_Part = Callable[[Mapping[str, Value]], Value]


class ExpressionError(SelectionError):
    """Report text that is not a valid expression, or whose value is out of bounds.

    Args:
        text: what was given.
        fault: what is wrong with it ("is not a number", "divides by zero", "is too large").
        allowed: what may be written instead.
    """

    def __init__(self, text: str, fault: str, allowed: str = ALLOWED) -> None:
        self.text, self.fault, self.allowed = shorten(text), fault, allowed
        super().__init__(f"{self.text!r} {fault}; allowed are {allowed}")

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, str, str]]:
        return ExpressionError, (self.text, self.fault, self.allowed)


def evaluate(text: str | Number) -> Number:
    """Return the value of arithmetic on numbers, a whole number wherever the result is exactly one.

    `^` means power, as on paper and in cuprof's own labels. A number is returned as it is.

    Raises:
        ExpressionError: the text is not arithmetic on numbers, is not finite, or exceeds the bounds.
    """
    if isinstance(text, bool):
        raise ExpressionError(str(text), "is not a number")
    try:
        if isinstance(text, int | float):
            return _bounded(text)  # type: ignore[no-any-return]
        stripped = text.strip()
        if len(stripped) > MAX_CHARACTERS:
            raise ExpressionError(text, f"has more than {MAX_CHARACTERS} characters")
        if not _CHARACTERS.fullmatch(stripped):
            raise ExpressionError(text, "is not a number")
        return _Reader(()).read(stripped.replace("^", "**"))({})  # type: ignore[no-any-return]
    except _RefusedError:
        raise ExpressionError(str(text), "is not a number") from None
    except _FaultError as error:
        raise ExpressionError(str(text), str(error)) from None


class Expression:
    """A text that computes a value from named ones: arithmetic, comparisons, `and`, `or`, `not`, `… if … else …`.

    It has no lambda, attribute, subscript, comprehension or assignment, and calls only `FUNCTIONS`.

    Args:
        text: the expression.
        known: the names that it may use.

    Attributes:
        names: those of the known names that it uses, in their order.

    Raises:
        ExpressionError: the text is not such an expression, or uses another name.
    """

    def __init__(self, text: str, known: Sequence[str]) -> None:
        self.text = text.strip()
        reader = _Reader(known)
        try:
            if len(self.text) > MAX_EXPRESSION:
                raise _FaultError(f"has more than {MAX_EXPRESSION} characters")
            self._compute = reader.read(self.text)
        except _FaultError as error:
            raise self._error(error, known) from None
        self.names = tuple(name for name in known if name in reader.used)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value at values of its names.

        Raises:
            ExpressionError: an operation is not defined on these values, or a value exceeds the bounds.
        """
        try:
            return self._compute(values)
        except _FaultError as error:
            raise self._error(error, self.names) from None

    def _error(self, fault: Exception, names: Sequence[str]) -> ExpressionError:
        known = f"the names {', '.join(names)}, " if names else ""
        return ExpressionError(self.text, str(fault), f"{known}numbers, arithmetic, comparisons and {_CALLS}")


def shorten(text: str, most: int = 60) -> str:
    """Return text that fits into an error's line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _FaultError(Exception):
    """What is wrong with an expression, without its text."""


class _RefusedError(_FaultError):
    """Something that the language does not have."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if base in (-1, 0, 1):
            return base if exponent % 2 else abs(base)
        if (abs(base).bit_length() - 1) * exponent > MAX_BITS:
            raise _FaultError("is too large")
    elif base < 0 and not float(exponent).is_integer():
        raise _FaultError("is not a real number")
    power: Number = base**exponent
    return power


def _quotient(left: Number, right: Number) -> Number:
    """Divide without losing digits where the result is whole: 2**60 / 3 * 3 aside, 2**62 / 2 is 2**61 exactly."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _round(number: Number, digits: int = 0) -> Number:
    if not -MAX_BITS <= digits <= MAX_BITS:  # Python would compute 10 ** -digits
        raise OverflowError
    return round(number, digits or None)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
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
"""What an expression with names may call, by position only."""
_CALLS = f"the functions {', '.join(sorted(FUNCTIONS))}"


class _Reader:
    """Turn a syntax tree into a function of the names' values, refusing whatever the language does not have."""

    def __init__(self, known: Sequence[str]) -> None:
        self.known, self.used = frozenset(known), set[str]()

    def read(self, text: str) -> _Part:
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise _RefusedError("is not an expression") from None
        return self._part(tree.body, 0)

    def _part(self, node: ast.expr, depth: int) -> _Part:
        read = getattr(self, f"_{type(node).__name__.lower()}", None)
        if read is None:
            raise _RefusedError(f"holds a {type(node).__name__}, which expressions do not have")
        if depth > MAX_DEPTH:
            raise _FaultError("is nested too deeply")
        part: _Part = read(node, depth + 1)
        return part

    def _parts(self, nodes: Sequence[ast.expr], depth: int) -> list[_Part]:
        return [self._part(node, depth) for node in nodes]

    def _constant(self, node: ast.Constant, _: int) -> _Part:
        if not isinstance(node.value, int | float | str | None):
            raise _RefusedError(f"holds {shorten(repr(node.value))}, which expressions do not have")
        value = _bounded(node.value)
        return lambda _: value

    def _name(self, node: ast.Name, _: int) -> _Part:
        name = node.id
        if name not in self.known:
            raise _RefusedError(f"uses the unknown name {shorten(name)}")
        self.used.add(name)
        return lambda values: _bounded(values[name])

    def _tuple(self, node: ast.Tuple | ast.List, depth: int) -> _Part:
        parts = self._parts(node.elts, depth)
        return lambda values: tuple(part(values) for part in parts)

    _list = _tuple

    def _unaryop(self, node: ast.UnaryOp, depth: int) -> _Part:
        if (function := _UNARY.get(type(node.op))) is None:
            raise _RefusedError("uses ~, which expressions do not have")
        operand = self._part(node.operand, depth)
        return lambda values: _apply(function, operand(values))

    def _binop(self, node: ast.BinOp, depth: int) -> _Part:
        if (function := _BINARY.get(type(node.op))) is None:
            raise _RefusedError(f"uses {type(node.op).__name__}, which expressions do not have")
        left, right = self._parts((node.left, node.right), depth)
        return lambda values: _apply(_numbers(function), left(values), right(values))

    def _boolop(self, node: ast.BoolOp, depth: int) -> _Part:
        parts, stops = self._parts(node.values, depth), isinstance(node.op, ast.Or)

        def compute(values: Mapping[str, Value]) -> Value:
            for part in parts:
                value = part(values)
                if bool(value) is stops:
                    break
            return value

        return compute

    def _compare(self, node: ast.Compare, depth: int) -> _Part:
        parts = self._parts((node.left, *node.comparators), depth)
        functions = [_COMPARE[type(each)] for each in node.ops]

        def compute(values: Mapping[str, Value]) -> bool:
            left = parts[0](values)
            for function, part in zip(functions, parts[1:], strict=True):
                right = part(values)
                if not _apply(function, left, right):
                    return False
                left = right
            return True

        return compute

    def _ifexp(self, node: ast.IfExp, depth: int) -> _Part:
        condition, yes, no = self._parts((node.test, node.body, node.orelse), depth)
        return lambda values: yes(values) if condition(values) else no(values)

    def _call(self, node: ast.Call, depth: int) -> _Part:
        function = FUNCTIONS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is None or node.keywords:
            raise _RefusedError(f"calls {shorten(ast.unparse(node.func))}, which expressions cannot")
        parts = self._parts(node.args, depth)
        return lambda values: _apply(function, *(part(values) for part in parts))


def _numbers(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return the function for numbers alone: texts and tuples could grow without bound."""

    def checked(*values: Value) -> Value:
        if not all(isinstance(value, int | float) for value in values):
            raise TypeError
        return function(*values)

    return checked


def _apply(function: Callable[..., Value], *values: Value) -> Value:
    try:
        return _bounded(function(*values))
    except ZeroDivisionError:
        raise _FaultError("divides by zero") from None
    except OverflowError:
        raise _FaultError("is too large") from None
    except (TypeError, ValueError):
        shown = " and ".join(shorten(repr(value), 20) for value in values)
        raise _FaultError(f"has an operation that is not defined on {shown}") from None


def _bounded(value: Value) -> Value:
    if isinstance(value, complex):
        raise _FaultError("is not a real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise _FaultError("is not finite" if math.isnan(value) else "is too large")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _FaultError("is too large")
    return value
