"""The default strategy: a model of time, cost and failure over all configurations says what is worth trying."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import ndtr

from cuprof.search.gaussian import Kernel, Process, fit
from cuprof.search.space import Space
from cuprof.search.strategy import Strategy

START = 4
"""So many configurations are tried before the model is asked, the most central one first, then far ones."""
FAR_AMONG = 30
CENTRAL = 1.0
"""Of the start, only this part of a group's configurations is eligible, the most central ones."""
COST_POWER = 1.0
RIGHT_LEAST = 2
POOL = 6000
"""Of larger spaces the model looks at so many at a time: neighbours of the best, and others drawn anew at each fit."""
BEST = 8
FIT_GROWTH = 1.3
"""The kernel is fitted again when the observations have grown by this factor."""
FIT_MOST = 160
"""To so many observations: the better half of all, and some of the others."""
FAILURE_REACH = 0.1
"""Square of the distance in the cube at which a failure counts 1 / e of one in the same place."""
DOUBT = 0.3
"""So many observations are what is taken for granted of a place weighs: that it fails as often as any."""
UNKNOWN_BONUS = 5.0
PROCESS_MOST = 1000
NEAR_MOST = 200


class Surrogate(Strategy):
    """Ask for what promises the largest expected improvement of the logarithm of a value, by second of its cost.

    Expected improvement: Jones, Schonlau & Welch, Journal of Global Optimization 13, 1998; by cost: Snoek, Larochelle &
    Adams, NeurIPS 2012. What is asked for and not told yet counts as if the model were right about it (Ginsbourger's
    "kriging believer"), so that those asked for together differ.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        super().__init__(space, seed, hints)
        self.kernel = Kernel.default(space.features.shape[1])
        self._process: Process | None = None
        self._pool = np.arange(space.size)
        self._order: list[int] = []
        self._believed: dict[int, np.ndarray] = {}
        self._next_fit = 0
        self._failures, self._successes = np.zeros(space.size), np.zeros(space.size)

    def _learn(self, index: int) -> None:
        failed = math.isnan(self.values[index])
        distance = ((self.space.features - self.space.features[index]) ** 2).sum(axis=1)
        counted = self._failures if failed else self._successes
        counted += np.exp(-distance / FAILURE_REACH)
        if failed or self._believed.pop(index, None) is not None or self._process is None:
            return
        if index not in self._order:
            self._observe(index)

    def _choose(self) -> int:
        right = np.array([index for index, value in self.values.items() if not math.isnan(value)], int)
        start = self._choose_start(right)
        if start is not None:
            return start
        if self._process is None or len(self.values) >= self._next_fit or self.is_taken[self._pool].all():
            self._fit(right)
        scores, means = self._judge_pool()
        position = int(np.argmax(scores))
        index = int(self._pool[position])
        self._believed[index] = means[position]
        self._observe(index)
        return index

    def _choose_start(self, right: np.ndarray) -> int | None:
        """Return what to try before the model can be asked, or None where it can."""
        taken = np.bincount(self.space.groups[self.is_taken], minlength=self.space.group_count)
        open_groups = np.unique(self.space.groups[~self.is_taken])
        group = open_groups[np.argmin(taken[open_groups])]
        free = np.flatnonzero(~self.is_taken & (self.space.groups == group))
        free = free[self.space.centre[free] <= np.quantile(self.space.centre[free], CENTRAL)]
        if taken[group] == 0:
            return int(free[np.argmin(self.space.centre[free] + 1e-3 * self.random.random(free.size))])
        if right.size >= RIGHT_LEAST and taken[group] >= START / self.space.group_count:
            return None
        among = self.random.choice(free, min(free.size, FAR_AMONG), replace=False)
        known = self.space.features[self.is_taken & (self.space.groups == group)]
        distances = ((self.space.features[among][:, None] - known[None]) ** 2).sum(axis=2).min(axis=1)
        return int(among[np.argmax(distances)])

    def _fit(self, right: np.ndarray) -> None:
        """Fit the kernel to what is known, and begin the process anew with it."""
        features, groups = self.space.features, self.space.groups
        logs = np.log([self.values[index] for index in right])
        known = np.unique(groups[right])
        level = np.array(
            [logs[groups[right] == group].mean() if group in known else 0.0 for group in range(max(known) + 1)]
        )
        rest = logs - level[groups[right]]
        kept = self._select(rest, FIT_MOST)
        if kept.size > 2:
            self.kernel = fit(self.kernel, features[right[kept]], rest[kept] / (rest[kept].std() or 1.0))
        self._next_fit = max(len(self.values) + 1, int(len(self.values) * FIT_GROWTH))
        self._pool = self._draw_pool(right[np.argsort(rest)[:BEST]])
        self._process, self._order = Process(self.kernel, features[self._pool]), []
        self._believed = {index: mean for index, mean in self._believed.items() if index not in self.values}
        for index in [*right[self._select(rest, PROCESS_MOST)], *self._believed]:
            self._observe(int(index))

    def _select(self, values: np.ndarray, most: int) -> np.ndarray:
        """Return the positions of at most so many values: of more, the best half of these and some of the others."""
        order = np.argsort(values, kind="stable")
        if order.size <= most:
            return order
        others = self.random.choice(order[most // 2 :], most - most // 2, replace=False)
        return np.concatenate([order[: most // 2], others])

    def _draw_pool(self, best: np.ndarray) -> np.ndarray:
        """Return what the model looks at: everything, or of a large space the best ones' neighbours and others."""
        if self.space.size <= POOL:
            return np.arange(self.space.size)
        free = np.flatnonzero(~self.is_taken)
        drawn = self.random.choice(free, min(free.size, POOL), replace=False)
        near = [self.space.neighbours(int(index)) for index in best]
        near = [each if each.size <= NEAR_MOST else self.random.choice(each, NEAR_MOST, replace=False) for each in near]
        return np.unique(np.concatenate([drawn, *near]))

    def _observe(self, index: int) -> None:
        assert self._process is not None
        self._process.add(self.space.features[index])
        self._order.append(index)

    def _judge_pool(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each of the pool its score, (p,), and the logarithms of value and cost expected of it, (p, 2)."""
        assert self._process is not None
        groups = self.space.groups
        logs = np.array([self._logs(index) for index in self._order])
        centre = logs.mean(axis=0)
        trends = np.eye(self.space.group_count)[groups]
        trends = np.hstack([np.ones((self.space.size, 1)), trends]) if self.space.group_count > 1 else trends
        means, variances = self._process.predict(logs - centre, trends[self._order], trends[self._pool])
        means += centre
        deviation = np.sqrt(self._process.variance * variances[0])
        told = np.array([index in self.values and not math.isnan(self.values[index]) for index in self._order])
        best = np.full(self.space.group_count, np.inf)
        np.minimum.at(best, groups[self._order], np.where(told, logs[:, 0], np.inf))
        incumbent = best[groups[self._pool]]
        unknown = np.isinf(incumbent)  # of a problem without a right result yet, anything is an improvement
        z = np.where(unknown, 0.0, (incumbent - means[:, 0]) / deviation)
        costs = np.log([*self.costs.values()])
        gain = np.log(deviation) + _log_improvement(z) + np.where(unknown, UNKNOWN_BONUS, 0.0)
        scores = (
            gain - COST_POWER * np.clip(means[:, 1], costs.min() - 1, costs.max() + 1) + np.log(self._chance_to_work())
        )
        scores[self.is_taken[self._pool]] = -np.inf
        return scores, means

    def _logs(self, index: int) -> np.ndarray:
        """Return the logarithms of a configuration's value and cost, as told or else as believed."""
        if index in self._believed:
            return self._believed[index]
        return np.log([self.values[index], self.costs[index]])

    def _chance_to_work(self) -> np.ndarray:
        """Return how likely each of the pool is to work, by what became of those near it, (p,)."""
        failures, successes = self._failures[self._pool], self._successes[self._pool]
        rate = max(float(np.mean([not math.isnan(value) for value in self.values.values()])), 0.05)
        return (successes + DOUBT * rate) / (successes + failures + DOUBT)


def _log_improvement(z: np.ndarray) -> np.ndarray:
    """Return log(φ(z) + z Φ(z)), the expected improvement in standard deviations, without underflow."""
    low = np.minimum(z, -5.0)
    tail = -0.5 * low**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(-low)
    high = np.maximum(z, -5.0)
    exact = np.log(np.exp(-0.5 * high**2) / np.sqrt(2 * np.pi) + high * ndtr(high))
    return np.where(z > -5.0, exact, tail)
