"""The default strategy: a model of time, cost and failure over all configurations says what is worth trying."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import ndtr

from cuprof.search.gaussian import Kernel, Layout, Process, fit
from cuprof.search.space import Space
from cuprof.search.strategy import Strategy

START = 3
"""So many configurations are tried before the model is asked, the most central one first, then far ones."""
FAR_AMONG = 30
POOL = 6000
"""Of larger spaces the model looks at so many at a time: neighbours of the best, and others drawn anew at each fit."""
BEST = 8
FIT_GROWTH = 1.4
"""The kernel is fitted again when the observations have grown by this factor."""
FIT_MOST = 160
"""To so many observations: the better half of all, and some of the others."""
FAILURE_REACH = 0.1
"""Square of the distance in the cube at which a failure counts 1 / e of one in the same place."""
DOUBT = 0.3
"""So many observations are what is taken for granted of a place weighs: that it fails as often as any."""
UNKNOWN_Z = 5.0
"""Of a problem without a right result yet anything is taken for better by so many standard deviations."""
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
        self._layout = Layout(space.features)
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
        if index not in self._process.points:
            self._process.add(index)

    def _choose(self) -> int:
        right = np.array([index for index, value in self.values.items() if not math.isnan(value)], int)
        start = self._choose_start(right)
        if start is not None:
            return start
        if self._process is None or len(self.values) >= self._next_fit or self.is_taken[self._pool].all():
            self._fit(right)
        assert self._process is not None
        scores, means = self._judge_pool()
        position = int(np.argmax(scores))
        index = int(self._pool[position])
        self._believed[index] = means[position]
        self._process.add(index)
        return index

    def _choose_start(self, right: np.ndarray) -> int | None:
        """Return what to try before the model can be asked, or None where it can."""
        taken = np.bincount(self.space.groups[self.is_taken], minlength=self.space.group_count)
        open_groups = np.unique(self.space.groups[~self.is_taken])
        group = open_groups[np.argmin(taken[open_groups])]
        free = np.flatnonzero(~self.is_taken & (self.space.groups == group))
        if taken[group] == 0:
            return int(free[np.argmin(self.space.centre[free] + 1e-3 * self.random.random(free.size))])
        if right.size >= 2 and taken[group] >= START / self.space.group_count:
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
        self._believed = {index: mean for index, mean in self._believed.items() if index not in self.values}
        points = [*map(int, right[self._select(rest, PROCESS_MOST)]), *self._believed]
        self._process = Process(self.kernel, self._layout, self._pool, points)

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

    def _judge_pool(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each of the pool its score, (p,), and the logarithms of value and cost expected of it, (p, 2)."""
        means, deviation, incumbent = self._predict()
        unknown = np.isinf(incumbent)  # of a problem without a right result yet, anything is an improvement
        z = np.where(unknown, UNKNOWN_Z, (incumbent - means[:, 0]) / deviation)
        costs = np.log([*self.costs.values()])
        gain = np.log(deviation) + _log_improvement(z)
        scores = gain - np.clip(means[:, 1], costs.min() - 1, costs.max() + 1) + np.log(self._chance_to_work())
        scores[self.is_taken[self._pool]] = -np.inf
        return scores, means

    def _predict(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the model expects of each of the pool.

        Returns:
            The logarithms of value and cost, (p, 2); the standard deviation of the former, (p,); the logarithm of the
            best value of its group so far, infinite where there is none, (p,).
        """
        assert self._process is not None
        points = self._process.points
        groups, count = self.space.groups, self.space.group_count
        logs = np.array([self._logs(index) for index in points])
        centre = logs.mean(axis=0)
        trends = np.eye(count)[groups] if count > 1 else np.empty((self.space.size, 0))
        trends = np.hstack([np.ones((self.space.size, 1)), trends])
        means, variances = self._process.predict(logs - centre, trends[points], trends[self._pool])
        told = np.array([index not in self._believed for index in points])
        best = np.full(count, np.inf)
        np.minimum.at(best, groups[points], np.where(told, logs[:, 0], np.inf))
        return means + centre, np.sqrt(self._process.variance * variances[0]), best[groups[self._pool]]

    def likely_left(self, group: int = 0) -> float | None:
        """Return by what share trying everything else is expected to better a group's best; None where nobody knows.

        As if what the model does not know of one configuration told nothing of another, which is rather too much.
        """
        right = np.array([index for index, value in self.values.items() if not math.isnan(value)], int)
        if right.size < 2:
            return None
        if self._process is None:
            self._fit(right)
        means, deviation, incumbent = self._predict()
        open_ = ~self.is_taken[self._pool] & (self.space.groups[self._pool] == group)
        if not open_.any() or np.isinf(incumbent[open_][0]):
            return 0.0 if not open_.any() else None
        steps = np.linspace(0, 1, 101)
        z = (incumbent[open_][:, None] - steps - means[open_, :1]) / deviation[open_][:, None]
        works = self._chance_to_work()[open_][:, None]
        chance = 1 - np.exp(np.log1p(-np.minimum(works * ndtr(z), 1 - 1e-12)).sum(axis=0))
        return float(-np.expm1(-np.trapezoid(chance, steps)))

    def _logs(self, index: int) -> np.ndarray:
        """Return the logarithms of a configuration's value and cost, as told or else as believed."""
        if index in self._believed:
            return self._believed[index]
        return np.log([self.values[index], self.costs[index]])

    def _chance_to_work(self) -> np.ndarray:
        """Return how likely each of the pool is to work, by what became of those near it, (p,)."""
        failures, successes = self._failures[self._pool], self._successes[self._pool]
        rate = max(float(np.mean([not math.isnan(value) for value in self.values.values()])), 0.05)
        return np.asarray((successes + DOUBT * rate) / (successes + failures + DOUBT))


def _log_improvement(z: np.ndarray) -> np.ndarray:
    """Return log(φ(z) + z Φ(z)), the expected improvement in standard deviations, without underflow."""
    low = np.minimum(z, -5.0)
    tail = -0.5 * low**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(-low)
    high = np.maximum(z, -5.0)
    exact = np.log(np.exp(-0.5 * high**2) / np.sqrt(2 * np.pi) + high * ndtr(high))
    return np.asarray(np.where(z > -5.0, exact, tail))
