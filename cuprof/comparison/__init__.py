"""Compare two sides (sweeps, variants, commits, databases, nvbench's files) by a method with a stated error rate."""

from cuprof.comparison.compare import Comparison, Options, Row, compare
from cuprof.comparison.contrast import Contrast, Series, contrast
from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.rule import Judgement, Rule, Verdict, judge
from cuprof.comparison.sides import load_sides

__all__ = [
    "Comparison",
    "Contrast",
    "Entry",
    "Judgement",
    "Options",
    "Row",
    "Rule",
    "Series",
    "Side",
    "Verdict",
    "compare",
    "contrast",
    "judge",
    "load_sides",
]
