"""Optuna's samplers on an enumerated space, for users who have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cuprof.core.errors import MissingDependencyError
from cuprof.search.space import Space
from cuprof.search.strategy import Strategy


class OptunaSampler(Strategy):
    """Ask Optuna's default sampler for a value of each column, and try the nearest configuration that is not taken.

    Raises:
        MissingDependencyError: Optuna is not installed.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        super().__init__(space, seed, hints)
        try:
            import optuna
        except ImportError:
            raise MissingDependencyError("Optuna", "pip install optuna") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        sampler = optuna.samplers.TPESampler(seed=seed % 2**32)
        self._studies = [optuna.create_study(sampler=sampler) for _ in range(space.group_count)]
        self._distributions = {
            name: optuna.distributions.CategoricalDistribution(list(range(int(codes.max()) + 1)))
            for name, codes in zip(space.names, space.codes.T, strict=True)
        }
        self._asked: dict[int, Any] = {}

    def _choose(self) -> int:
        free = np.flatnonzero(~self.is_taken)
        group = int(self.space.groups[self.random.choice(free)])
        free = free[self.space.groups[free] == group]
        trial = self._studies[group].ask(self._distributions)
        wanted = np.array([trial.params[name] for name in self.space.names])
        differing = (self.space.codes[free] != wanted).sum(axis=1)
        index = int(self.random.choice(free[differing == differing.min()]))
        self._asked[index] = trial
        return index

    def _learn(self, index: int) -> None:
        """Tell the study, under the configuration that was tried and not the one that it wished for."""
        value = self.values[index]
        study = self._studies[int(self.space.groups[index])]
        if index in self._asked:
            study.tell(self._asked.pop(index), state=self._optuna.trial.TrialState.FAIL)
        if math.isnan(value):
            return
        study.add_trial(
            self._optuna.create_trial(
                params=dict(zip(self.space.names, map(int, self.space.codes[index]), strict=True)),
                distributions=self._distributions,
                value=math.log(value),
            )
        )
