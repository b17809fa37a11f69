"""What every strategy offers: ask it what to try next, tell it the result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from cuprof.search.space import Space

HINTED = 3
"""How many configurations of a group to try because they were the best elsewhere."""


class Strategy(ABC):
    """Choose among the configurations of a space, each at most once; not for use from two threads at a time.

    Args:
        space: what there is to choose from.
        seed: of every random choice; the same seed and the same answers give the same questions.
        hints: index → logarithm of its time relative to others under other conditions (another problem, device or
            version); the smallest are tried first.

    Attributes:
        values: index → the value to minimize (a duration), NaN where the configuration failed.
        costs: index → seconds that measuring it took.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        self.space, self.hints = space, hints
        self.random = np.random.default_rng(seed)
        self.values: dict[int, float] = {}
        self.costs: dict[int, float] = {}
        self.is_taken = np.zeros(space.size, bool)

    def ask(self, count: int = 1) -> list[int]:
        """Return the next configurations to try, at most `count`; fewer, or none, once all have been asked for.

        You may ask for more before you tell the results of these.
        """
        chosen: list[int] = []
        while len(chosen) < count and not self.is_taken.all():
            hinted = self._choose_hinted()
            index = self._choose() if hinted is None else hinted
            self.is_taken[index] = True
            chosen.append(index)
        return chosen

    def tell(self, index: int, value: float, cost: float) -> None:
        """Take the result of a configuration, asked for or not; a later one replaces an earlier one.

        Args:
            value: positive, small is good; NaN for a failure.
            cost: seconds, positive.
        """
        if not (math.isnan(value) or 0 < value < math.inf):
            raise ValueError(f"configuration {index} has the value {value}; it is positive, or NaN for a failure")
        self.is_taken[index] = True
        if index in self.values:
            self._forget(index)
        self.values[index], self.costs[index] = value, cost
        self._learn(index)

    def _choose_hinted(self) -> int | None:
        """Return the best hinted configuration of a group in which little has been tried, or None."""
        known = np.array([*self.hints], int)
        groups = self.space.groups
        taken = np.bincount(groups[self.is_taken], minlength=self.space.group_count)
        open_known = known[~self.is_taken[known] & (taken[groups[known]] < HINTED)]
        return min(map(int, open_known), key=self.hints.__getitem__) if open_known.size else None

    @abstractmethod
    def _choose(self) -> int:
        """Return a configuration that is not taken yet; there is one."""

    def _learn(self, index: int) -> None:  # noqa: B027 - random search learns nothing
        """Learn from a configuration's result, which is in `values` and `costs`."""

    def _forget(self, index: int) -> None:  # noqa: B027 - what learns nothing has nothing to forget
        """Undo `_learn` of a result, still in `values` and `costs`, that a later one replaces; `_learn` follows."""

    def _draw(self) -> int:
        """Return any configuration that is not taken."""
        return int(self.random.choice(np.flatnonzero(~self.is_taken)))

    def _draw_group(self) -> int:
        return int(self.space.groups[self._draw()])

    def _list_free(self, group: int) -> np.ndarray:
        return np.flatnonzero(~self.is_taken & (self.space.groups == group))

    def _draw_nearest(self, among: np.ndarray, codes: np.ndarray) -> int:
        """Return one of those that differ from these codes in the fewest columns."""
        differing = (self.space.codes[among] != codes).sum(axis=1)
        return int(self.random.choice(among[differing == differing.min()]))

    def likely_left(self, group: int = 0) -> float | None:
        """Return how much trying everything else is expected to improve a group's best, as a share; None if unknown."""
        return None
