"""Which strategies there are, by name; their modules are imported when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cuprof.core.plugins import load_plugin

if TYPE_CHECKING:  # choosing one by name needs no NumPy
    from cuprof.search.space import Space
    from cuprof.search.strategy import Strategy

GROUP = "cuprof.strategies"
"""Packages add subclasses of `Strategy` as entry points of this group."""
DEFAULT = "surrogate"
STRATEGIES = {
    "surrogate": "cuprof.search.surrogate:Surrogate",
    "random": "cuprof.search.baselines:Chance",
    "annealing": "cuprof.search.baselines:Annealing",
    "genetic": "cuprof.search.baselines:Genetic",
    "optuna": "cuprof.search.baselines:OptunaSampler",
}


def make_strategy(name: str, space: Space, seed: int, hints: Mapping[int, float] | None = None) -> Strategy:
    """Return a strategy of this name that knows nothing but hints; see `Strategy`.

    Raises:
        UnknownNameError: no strategy has this name.
        UsageError: the package that adds it cannot be imported.
        MissingDependencyError: its library is not installed.
    """
    strategy: Strategy = load_plugin(GROUP, name, STRATEGIES, "search strategy")(space, seed, hints or {})
    return strategy
