"""Compare two sides (sweeps, variants, commits, databases, other tools' files) by a method with a stated error rate."""

from cuprof.comparison.compare import ComparedTrial, Comparison, Options, compare
from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.pairs import VariantComparisons
from cuprof.comparison.sides import load_sides

__all__ = ["ComparedTrial", "Comparison", "Entry", "Options", "Side", "VariantComparisons", "compare", "load_sides"]
