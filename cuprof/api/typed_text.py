"""The text of a function or a class as somebody typed it, in a file or in a notebook."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from cuprof.core.errors import UsageError
from cuprof.families.modules import Definition, parse_text, without_registration


def definition_text(function: FunctionType) -> str:
    """Return the text of a function alone, without what it uses, indented as at top level.

    Raises:
        UsageError: it is not known, or that of several lambdas.
    """
    code = function.__code__
    source = parse_text(Path(code.co_filename), "".join(_lines_of(function)))
    found = source.definition(code)
    if not isinstance(found, list):
        return source.segment(found)
    same = [one for one in found if _code_of(one) == _shape_of(code)] or found
    if len({ast.dump(one) for one in same}) > 1:
        raise UsageError(
            f"several lambdas stand in line {code.co_firstlineno} of {code.co_filename}; give one a line of its own"
        )
    return source.segment(same[0])


def class_text(value: type) -> str:
    """Return the text of a class, indented as at top level.

    Raises:
        UsageError: it is not known.
    """
    try:
        text = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        raise UsageError(
            f"the text of class {value.__name__} is not known; put it into a file that can be imported"
        ) from None
    node = ast.parse(text).body[0]
    return text.rstrip() if isinstance(node, Definition) else without_registration(node)


def without_defaults(text: str) -> str:
    """Return a function's text with None for defaults that name something: what that was, the function alone knows."""
    node: Any = ast.parse(text).body[0]
    node = node.value if isinstance(node, ast.Expr) else node
    given = (*node.args.defaults, *filter(None, node.args.kw_defaults))
    lines = text.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    content = text.encode()
    for one in sorted(given, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        if any(isinstance(each, ast.Name) for each in ast.walk(one)):
            begin, end = starts[one.lineno - 1] + one.col_offset, starts[one.end_lineno - 1] + one.end_col_offset
            content = content[:begin] + b"None" + content[end:]
    return content.decode()


def _lines_of(function: FunctionType) -> list[str]:
    name = function.__code__.co_filename
    lines = linecache.getlines(name, function.__globals__)
    if not lines:
        raise UsageError(
            f"the text of {function.__name__} is not known (it was typed into the plain interpreter); "
            "put it into a file or a notebook"
        )
    return lines


def _code_of(node: ast.Lambda) -> tuple[Any, ...]:
    compiled = compile(ast.Expression(node), "", "eval").co_consts
    return _shape_of(next(one for one in compiled if isinstance(one, CodeType)))


def _shape_of(code: CodeType) -> tuple[Any, ...]:
    plain = tuple(one for one in code.co_consts if not isinstance(one, CodeType))
    return code.co_varnames, code.co_names + code.co_freevars, plain
