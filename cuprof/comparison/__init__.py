"""Compare two sides (sweeps, variants, commits, databases, other tools' files) by a method with a stated error rate."""

from cuprof.comparison.compare import Comparison, Options, compare
from cuprof.comparison.pairs import VariantComparisons
from cuprof.comparison.sides import Side, load_sides

__all__ = ["Comparison", "Options", "Side", "VariantComparisons", "compare", "load_sides"]
