"""The examples beside Kernel Tuner's: no longer than these, and their sources compile."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from cuprof.core.point import Point
from cuprof.families.arrays import HOMES
from cuprof.families.model import Sample
from cuprof.families.origin import load_family
from cuprof.families.program import Array

FOLDER = Path(__file__).parents[2] / "benchmarks" / "kernel_tuner"
THEIRS = {"vector_add": 26, "matmul": 30, "stencil": 21, "spmv": 37, "pnpoly": 42, "reduction": 50}
"""Lines of Kernel Tuner's examples/cuda/NAME.py, blank ones and comments left out; only the first holds its kernel."""
SIZES = {
    "vector_add": {"n": 64},
    "matmul": {"n": 64},
    "stencil": {"width": 8, "height": 4},
    "spmv": {"n": 64, "per_mille": 100},
}
SIZES |= {"pnpoly": {"n": 1000}, "reduction": {"n": 64}}


def count_lines(text: str) -> int:
    """Return how many lines hold code: no blank ones, no comments, not the docstring at the top."""
    passed_over = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    tokens = (each for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type not in passed_over)
    held = {line for each in tokens for line in range(each.start[0], each.end[0] + 1)}
    top = ast.parse(text).body[0]
    held -= set(range(top.lineno, (top.end_lineno or 0) + 1)) if isinstance(top, ast.Expr) else set()
    return sum(bool(line.strip()) for number, line in enumerate(text.splitlines(), 1) if number in held)


def test_lines_are_counted_without_blank_ones_and_comments() -> None:
    assert count_lines('"""Top."""\n# note\nx = """a\n\nb"""  # c\n\nf(\n    x,\n)\n') == 5


@pytest.mark.parametrize("name", THEIRS)
def test_an_example_is_no_longer_than_theirs_and_has_a_reference(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert count_lines(text) <= THEIRS[name]
    assert "reference=" in text


@pytest.mark.parametrize("name", THEIRS)
def test_an_example_is_planned_and_knows_what_is_right(name: str) -> None:
    import numpy as np

    family = load_family(FOLDER / f"{name}.py")
    problem = Point(SIZES[name])
    assert family.sample is not None
    sample = family.sample(problem)
    assert isinstance(sample, Sample)
    assert sample.home in HOMES
    inputs = family.generate(problem, np.random.default_rng(1))
    (output,) = sample.signature.outputs.values()
    (expected,) = family.reference(problem, inputs).values()
    assert Array(expected.shape, output.dtype) == output
    (variant,) = family.variants.values()
    tunables = Point({tunable.name: tunable.values[len(tunable.values) // 2] for tunable in variant.tunables})
    assert variant.make(problem, tunables).launches
