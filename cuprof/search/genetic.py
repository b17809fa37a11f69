"""A genetic algorithm: mixes the columns of good configurations."""

from __future__ import annotations

import math

import numpy as np

from cuprof.search.strategy import Strategy

POPULATION = 20
MUTATION = 0.1
"""Chance of a column to be taken from any configuration instead of a parent."""


class Genetic(Strategy):
    """Cross two of the best configurations of a group, mutate, and ask for the nearest one that exists."""

    def _choose(self) -> int:
        free = np.flatnonzero(~self.is_taken)
        group = self.space.groups[self.random.choice(free)]
        free = free[self.space.groups[free] == group]
        right = [i for i, v in self.values.items() if not math.isnan(v) and self.space.groups[i] == group]
        if len(right) < POPULATION:
            return int(self.random.choice(free))
        parents = sorted(right, key=self.values.__getitem__)[:POPULATION]
        weights = np.arange(len(parents), 0, -1.0)
        mother, father = self.random.choice(parents, 2, replace=False, p=weights / weights.sum())
        codes = self.space.codes
        child = np.where(self.random.random(codes.shape[1]) < 0.5, codes[mother], codes[father])
        other = codes[self.random.choice(free)]
        child = np.where(self.random.random(child.size) < MUTATION, other, child)
        differing = (codes[free] != child).sum(axis=1)
        return int(self.random.choice(free[differing == differing.min()]))
