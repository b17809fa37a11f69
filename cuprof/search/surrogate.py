"""The default strategy: a model of time, cost and failure over all configurations chooses what to try next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import scipy
from threadpoolctl import ThreadpoolController

from cuprof.search.gaussian import Kernel, Process, fit
from cuprof.search.space import Space
from cuprof.search.strategy import Strategy

START = 3
"""How many configurations to try before asking the model, besides those asked for together with them: of those
supposed to be best, first the most central one, then distant ones."""
FAR_AMONG = 30
POOL = 6000
"""How many configurations of a larger space the model sees: neighbours of the best, and others drawn at each fit."""
BEST = 8
FIT_GROWTH = 1.4
"""Fit the kernel again when the observations have grown by this factor."""
FIT_MOST = 160
"""The most observations to fit to: the better half, and some of the others."""
FAILURE_REACH = 0.1
"""Squared distance in the cube at which a failure counts 1 / e of one in the same place."""
DOUBT = 0.3
"""Weight, in observations, of the prior that a place fails as often as any other."""
UNKNOWN_Z = 5.0
"""For a problem without a right result yet: by how many standard deviations anything counts as better."""
FAR_LEAST, FAR_SHARE = 0.5, 0.4
"""A time further above its group's best than the group's median, and than the first, counts only by the second, a share
of the part beyond."""
HINTS_MOST = 400
HINT_WEIGHT = 3.0
"""Weight, in observations, of the prior that what helps elsewhere helps as much here."""
PROCESS_MOST = 1000
NEAR_MOST = 200


class Surrogate(Strategy):
    """Ask for the largest expected improvement of the logarithm of a value per second of cost.

    Expected improvement: Jones, Schonlau & Welch, Journal of Global Optimization 13, 1998; by cost: Snoek, Larochelle &
    Adams, NeurIPS 2012. A configuration that was asked for and has no result yet counts as if the model were right
    about it (Ginsbourger's "kriging believer"), so that those asked for together differ.
    """

    def __init__(self, space: Space, seed: int, hints: Mapping[int, float]) -> None:
        super().__init__(space, seed, hints)
        self.kernel = Kernel.default(space.features.shape[1])
        self._process: Process | None = None
        self._pool = np.arange(space.size)
        self._trend = np.ones((space.size, 1))
        if space.group_count > 1:
            self._trend = np.hstack([self._trend, np.eye(space.group_count)[space.groups]])
        self._logs = np.full((space.size, 2), np.nan)
        """Logarithms of value and cost as the model sees them: results, drawn nearer, or its expectations."""
        self._is_right, self._is_believed = np.zeros(space.size, bool), np.zeros(space.size, bool)
        self._elsewhere = self._spread_hints() if hints else space.supposed
        self._expected = self._elsewhere
        """What hints or suppositions predict for each configuration: the logarithm of its value relative to others."""
        self._next_fit = 0
        self._squares = (space.places**2).sum(axis=1)
        self._failures, self._successes = np.zeros(space.size), np.zeros(space.size)

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        """Limit the linear algebra libraries to one thread; this loads those of `scipy.linalg`.

        The matrices are small, and several threads would wait for one that a build keeps off its core.
        """
        assert scipy.linalg
        return ThreadpoolController()

    def _learn(self, index: int) -> None:
        was_right, works = self._is_right[index], not math.isnan(self.values[index])
        self._is_right[index] = works
        self._count_near(index, 1)
        if not works:
            if was_right:
                self._process = None  # it holds the time of before
            return
        self._logs[index, 1] = np.log(self.costs[index])
        if self._process is not None and index not in self._process.points:
            with self._libraries.limit(limits=1):
                self._process.add(index)
        self._is_believed[index] = False

    def _forget(self, index: int) -> None:
        self._count_near(index, -1)

    def _count_near(self, index: int, times: int) -> None:
        """Count a result for the chance to work of what is near it, or with -1 take it back."""
        distance = self._squares + self._squares[index] - 2 * self.space.places @ self.space.places[index]
        counted = self._successes if self._is_right[index] else self._failures
        counted += times * np.exp(-distance / FAILURE_REACH)

    def _draw_near(self) -> None:
        """Move values far above their group's best nearer to it.

        Logarithms of times still have a long tail of bad ones, and the model would mostly explain what makes bad ones
        worse.
        """
        for group in range(self.space.group_count):
            right = np.flatnonzero(self._is_right & (self.space.groups == group))
            if not right.size:
                continue
            told = np.log([self.values[int(index)] for index in right])
            above = told - told.min()
            self._logs[right, 0] = told - (1 - FAR_SHARE) * np.maximum(above - max(np.median(above), FAR_LEAST), 0)

    def _choose(self) -> int:
        if self._process is None and (start := self._choose_start()) is not None:
            return start
        with self._libraries.limit(limits=1):
            self._draw_near()
            if self._process is None or len(self.values) >= self._next_fit or self.is_taken[self._pool].all():
                self._fit()
            assert self._process is not None
            scores, means = self._judge_pool()
            position = int(np.argmax(scores))
            index = int(self._pool[position])
            self._logs[index], self._is_believed[index] = means[position], True
            self._process.add(index)
        return index

    def _choose_start(self) -> int | None:
        """Return what to try before the model has enough results, or None if it has."""
        taken = np.bincount(self.space.groups[self.is_taken], minlength=self.space.group_count)
        open_groups = np.flatnonzero(np.bincount(self.space.groups[~self.is_taken]))
        group = open_groups[np.argmin(taken[open_groups])]
        free = self._list_free(int(group))
        is_told = any(self.space.groups[index] == group for index in self.values)
        if taken[group] < START or not is_told:  # what is usual may fail altogether
            supposed = self.space.supposed[free]
            free = free[supposed == supposed.min()]
        if taken[group] == 0:
            away = ((self.space.places - np.median(self.space.places, axis=0)) ** 2).sum(axis=1)
            return int(free[np.argmin(away[free] + 1e-3 * self.random.random(free.size))])
        if self._is_right.sum() >= 2 and taken[group] >= START / self.space.group_count:
            return None
        among = self.random.choice(free, min(free.size, FAR_AMONG), replace=False)
        known = self.space.places[self.is_taken & (self.space.groups == group)]
        distances = ((self.space.places[among][:, None] - known[None]) ** 2).sum(axis=2).min(axis=1)
        return int(among[np.argmax(distances)])

    def _fit(self) -> None:
        """Fit the kernel to the results, and start a new process with it."""
        features, groups = self.space.features, self.space.groups
        right = np.flatnonzero(self._is_right)
        logs = self._logs[right, 0]
        level = {group: logs[groups[right] == group].mean() for group in np.unique(groups[right])}
        rest = logs - np.array([level[group] for group in groups[right]])
        known_elsewhere = self._elsewhere[right] - self._elsewhere[right].mean()
        doubt = HINT_WEIGHT * min(float(self._elsewhere.var()), float(rest.var()) or math.inf)
        agreement = (known_elsewhere @ rest + doubt) / (known_elsewhere @ known_elsewhere + doubt) if doubt else 0.0
        self._expected = max(0.0, float(agreement)) * self._elsewhere
        kept = self._select(rest, FIT_MOST)
        if kept.size > 2:
            unknown = (rest - self._expected[right])[kept]
            self.kernel = fit(self.kernel, features[right[kept]], unknown / (unknown.std() or 1.0))
        self._next_fit = max(len(self.values) + 1, int(len(self.values) * FIT_GROWTH))
        self._pool = self._draw_pool(right[np.argsort(rest)[:BEST]])
        self._is_believed[[*self.values]] = False  # one with a result that still was has failed
        points = [*map(int, right[self._select(rest, PROCESS_MOST)]), *map(int, np.flatnonzero(self._is_believed))]
        self._process = Process(self.kernel, self.space.features, self._pool, points, self._trend)

    def _spread_hints(self) -> np.ndarray:
        """Return the hint of every configuration, around zero, (n,); a process predicts those without one."""
        known, values = np.array([*self.hints], int), np.array([*self.hints.values()])
        values = values - values.mean()
        spread = np.zeros(self.space.size)
        if known.size > 2 and known.size < self.space.size:
            kept = self._select(values, HINTS_MOST)
            points = [*map(int, known[kept])]
            with self._libraries.limit(limits=1):
                kernel = fit(self.kernel, self.space.features[known[kept]], values[kept] / (values.std() or 1.0))
                for pool in np.split(np.arange(self.space.size), range(POOL, self.space.size, POOL)):
                    process = Process(kernel, self.space.features, pool, points, self._trend[:, :1])
                    spread[pool] = process.predict(values[kept, None])[0][:, 0]
        spread[known] = values
        return spread

    def _select(self, values: np.ndarray, most: int) -> np.ndarray:
        """Return the positions of at most `most` values: half of these the best, the rest drawn from the others."""
        order = np.argsort(values, kind="stable")
        if order.size <= most:
            return order
        others = self.random.choice(order[most // 2 :], most - most // 2, replace=False)
        return np.concatenate([order[: most // 2], others])

    def _draw_pool(self, best: np.ndarray) -> np.ndarray:
        """Return the pool: everything, or of a large space the best ones' neighbours and others."""
        if self.space.size <= POOL:
            return np.arange(self.space.size)
        free = np.flatnonzero(~self.is_taken)
        drawn = self.random.choice(free, min(free.size, POOL), replace=False)
        near = [self.space.neighbours(int(index)) for index in best]
        near = [each if each.size <= NEAR_MOST else self.random.choice(each, NEAR_MOST, replace=False) for each in near]
        return np.unique(np.concatenate([drawn, *near]))

    def _judge_pool(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pool's scores, (p,), and expected logarithms of value and cost, (p, 2)."""
        means, deviation, incumbent = self._predict()
        unknown = np.isinf(incumbent)  # without a right result of its problem, anything is an improvement
        z = np.where(unknown, UNKNOWN_Z, (incumbent - means[:, 0]) / deviation)
        costs = np.log([min(self.costs.values()), max(self.costs.values())])
        gain = np.log(deviation) + _log_improvement(z)
        scores = gain - np.clip(means[:, 1], costs[0] - 1, costs[1] + 1) + np.log(self._chance_to_work())
        scores[self.is_taken[self._pool]] = -np.inf
        return scores, means

    def _predict(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the model expects of the pool.

        Returns:
            The logarithms of value and cost, (p, 2); the standard deviation of the former, (p,); the logarithm of the
            best value of each one's group so far, infinite without any, (p,).
        """
        assert self._process is not None
        points = np.array(self._process.points)
        logs = self._logs[points]
        expected = np.column_stack([self._expected, np.zeros(self.space.size)])
        means, variances = self._process.predict(logs - expected[points])
        means += expected[self._pool]
        best = np.full(self.space.group_count, np.inf)
        told = ~self._is_believed[points]
        np.minimum.at(best, self.space.groups[points[told]], logs[told, 0])
        return means, np.sqrt(self._process.variance * variances[0]), best[self.space.groups[self._pool]]

    def likely_left(self, group: int = 0) -> float | None:
        """Answer as `Strategy` says; this takes the model's errors as independent, which overestimates."""
        if self._is_right.sum() < 2:
            return None
        self._draw_near()
        if self._process is None:
            self._fit()
        means, deviation, incumbent = self._predict()
        open_ = ~self.is_taken[self._pool] & (self.space.groups[self._pool] == group)
        if not open_.any() or np.isinf(incumbent[open_][0]):
            return 0.0 if not open_.any() else None
        steps = np.linspace(0, 1, 101)
        z = (incumbent[open_][:, None] - steps - means[open_, :1]) / deviation[open_][:, None]
        works = self._chance_to_work()[open_][:, None]
        chance = 1 - np.exp(np.log1p(-np.minimum(works * scipy.special.ndtr(z), 1 - 1e-12)).sum(axis=0))
        return float(-np.expm1(-np.trapezoid(chance, steps)))

    def _chance_to_work(self) -> np.ndarray:
        """Return how likely each of the pool is to work, by the results near it, (p,)."""
        failures, successes = self._failures[self._pool], self._successes[self._pool]
        rate = max(float(self._is_right.sum()) / len(self.values), 0.05)
        return np.asarray((successes + DOUBT * rate) / (successes + failures + DOUBT))


def _log_improvement(z: np.ndarray) -> np.ndarray:
    """Return log(φ(z) + z Φ(z)), the expected improvement in standard deviations, without underflow."""
    low = np.minimum(z, -5.0)
    tail = -0.5 * low**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(-low)
    high = np.maximum(z, -5.0)
    exact = np.log(np.exp(-0.5 * high**2) / np.sqrt(2 * np.pi) + high * scipy.special.ndtr(high))
    return np.asarray(np.where(z > -5.0, exact, tail))
