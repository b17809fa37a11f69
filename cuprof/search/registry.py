"""Which strategies there are, by name; their modules are imported when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from cuprof.core.errors import UnknownNameError

if TYPE_CHECKING:  # choosing one by name needs no NumPy
    from cuprof.search.space import Space
    from cuprof.search.strategy import Strategy

DEFAULT = "surrogate"
STRATEGIES = {
    "surrogate": "cuprof.search.surrogate:Surrogate",
    "random": "cuprof.search.chance:Chance",
    "annealing": "cuprof.search.annealing:Annealing",
    "genetic": "cuprof.search.genetic:Genetic",
    "optuna": "cuprof.search.optuna_sampler:OptunaSampler",
}


def make_strategy(name: str, space: Space, seed: int, hints: Mapping[int, float] | None = None) -> Strategy:
    """Return a strategy of this name that has been told nothing but hints; see `Strategy`.

    Raises:
        UnknownNameError: there is none of this name.
        MissingDependencyError: its library is not installed.
    """
    if name not in STRATEGIES:
        raise UnknownNameError("search strategy", name, STRATEGIES)
    strategy: Strategy = resolve_name(STRATEGIES[name])(space, seed, hints or {})
    return strategy
