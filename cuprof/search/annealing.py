"""Simulated annealing over neighbours: walks downhill, and uphill ever less often."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cuprof.search.space import Space
from cuprof.search.strategy import Strategy

START_TEMPERATURE = 0.5
"""A step to a time that is larger by this factor of e is first taken with a chance of 1 / e."""
COOLING = 0.98
COLDEST = 0.01


class Annealing(Strategy):
    """Try neighbours of a place, and move there when they are better, or by chance when they are not much worse.

    Kirkpatrick, Gelatt & Vecchi, Science 220, 1983. Neighbours differ in one column, or in two where all those are
    taken; a place without any left is left for another one at random.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        super().__init__(space, seed, hints)
        self.temperature = START_TEMPERATURE
        self._places: dict[int, int] = {}
        self._next_group = 0

    def _choose(self) -> int:
        for _ in range(self.space.group_count):
            group = self._next_group
            self._next_group = (group + 1) % self.space.group_count
            free = np.flatnonzero(~self.is_taken & (self.space.groups == group))
            if not free.size:
                continue
            place = self._places.get(group)
            if place is not None:
                for within in (1, 2):
                    near = self.space.neighbours(place, within=within)
                    near = near[~self.is_taken[near]]
                    if near.size:
                        return int(self.random.choice(near))
            self._places.pop(group, None)
            return int(self.random.choice(free))
        return self._draw()

    def _learn(self, index: int) -> None:
        value = self.values[index]
        if math.isnan(value):
            return
        group = int(self.space.groups[index])
        place = self._places.get(group)
        rise = math.log(value / self.values[place]) if place is not None else -math.inf
        if rise <= 0 or self.random.random() < math.exp(-rise / self.temperature):
            self._places[group] = index
        self.temperature = max(COLDEST, self.temperature * COOLING)
