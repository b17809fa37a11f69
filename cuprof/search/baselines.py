"""Strategies to compare the default one with: random search, simulated annealing, a genetic algorithm, Optuna's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from cuprof.core.errors import needing
from cuprof.search.space import Space
from cuprof.search.strategy import Strategy

START_TEMPERATURE = 0.5
"""At the start, annealing takes a step to a time larger by this factor of e with a chance of 1 / e."""
COOLING = 0.98
COLDEST = 0.01
POPULATION = 20
MUTATION = 0.1
"""Chance that a column comes from any configuration instead of a parent."""


class Chance(Strategy):
    """Draw configurations at random, each once: the baseline of every other strategy."""

    def _choose(self) -> int:
        return self._draw()


class Annealing(Strategy):
    """Try neighbours of a place, and move there if they are better, or by chance if they are not much worse.

    Kirkpatrick, Gelatt & Vecchi, Science 220, 1983. Neighbours differ in one column, or in two once all those are
    taken; a place without any left is given up for a random one.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        super().__init__(space, seed, hints)
        self.temperature = START_TEMPERATURE
        self._places: dict[int, int] = {}
        self._groups = cycle(range(space.group_count))

    def _choose(self) -> int:
        group, free = next((group, free) for group in self._groups if (free := self._list_free(group)).size)
        if (place := self._places.get(group)) is not None:
            for within in (1, 2):
                near = self.space.neighbours(place, within=within)
                near = near[~self.is_taken[near]]
                if near.size:
                    return int(self.random.choice(near))
        self._places.pop(group, None)
        return int(self.random.choice(free))

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

    def _forget(self, index: int) -> None:
        group = int(self.space.groups[index])
        if self._places.get(group) == index:  # its next result decides about the place
            del self._places[group]


class Genetic(Strategy):
    """Cross two of the best configurations of a group, mutate, and ask for the nearest one that exists."""

    def _choose(self) -> int:
        group = self._draw_group()
        free = self._list_free(group)
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
        return self._draw_nearest(free, child)


class OptunaSampler(Strategy):
    """Ask Optuna's default sampler for a value of each column, and try the nearest configuration that is not taken.

    Raises:
        MissingDependencyError: Optuna is not installed.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        super().__init__(space, seed, hints)
        with needing("Optuna", "pip install optuna"):
            import optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._sampler = optuna.samplers.TPESampler(seed=seed % 2**32)
        self._studies: dict[int, Any] = {}
        self._distributions = {
            name: optuna.distributions.CategoricalDistribution(list(range(int(codes.max()) + 1)))
            for name, codes in zip(space.names, space.codes.T, strict=True)
        }

    def _choose(self) -> int:
        group = self._draw_group()
        if group not in self._studies:  # a new one is told what is known of its group
            self._studies[group] = self._optuna.create_study(sampler=self._sampler)
            for index in self.values:
                if self.space.groups[index] == group:
                    self._learn(index)
        trial = self._studies[group].ask(self._distributions)
        self._studies[group].tell(trial, state=self._optuna.trial.TrialState.FAIL)  # `_learn` tells what was tried
        wanted = np.array([trial.params[name] for name in self.space.names])
        return self._draw_nearest(self._list_free(group), wanted)

    def _learn(self, index: int) -> None:
        """Tell the study, under the configuration that was tried and not the one that it asked for."""
        group = int(self.space.groups[index])
        if math.isnan(value := self.values[index]) or group not in self._studies:
            return
        params = dict(zip(self.space.names, map(int, self.space.codes[index]), strict=True))
        tried = self._optuna.create_trial(params=params, distributions=self._distributions, value=math.log(value))
        self._studies[group].add_trial(tried)

    def _forget(self, index: int) -> None:
        self._studies.pop(int(self.space.groups[index]), None)  # a study does not give a trial back
