"""A Gaussian process over a fixed set of points, extended by one observation at a time.

Rasmussen & Williams: Gaussian Processes for Machine Learning, 2006, chapters 2 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads its parts when they are first used: a search starts without them

ROOT = 3.0**0.5
LENGTH, LENGTH_SPREAD = 1.0, 1.0
"""The prior of a feature's length scale, log-normal: about a column's whole range."""
NOISE, NOISE_SPREAD = -5.0, 2.0
"""The prior of the logarithm of the noise's variance, as a share of the process's."""
LEAST_NOISE = -9.0
"""A hundredth of the process's deviation: single precision resolves no less."""
SHARE_SPREAD = 1.5
"""The prior of the logit of the additive part's share, around one half."""
JITTER = 1e-8
SCALE, SCALE_WEIGHT = 0.7, 1.0
"""The prior of the standard deviation of a logarithm, and its weight in observations."""
STEPS = 15


@dataclass(frozen=True)
class Kernel:
    """The covariance of a sum of effects of single features and an effect of all together, both Matérn 3/2.

    The effect of tunables on a time is often a product of single effects, a sum in logarithms, and takes few
    observations to learn; the joint part takes the rest.

    Args:
        scales: 1 / length scale of each feature, (d,).
        noise: variance of an observation, as a share of the process's.
        share: the additive part's share of the variance.
    """

    scales: np.ndarray
    noise: float
    share: float

    @classmethod
    def default(cls, features: int) -> Kernel:
        """Return the kernel in the middle of the priors."""
        return cls.unpack(_prior(features)[0])

    @classmethod
    def unpack(cls, parameters: np.ndarray) -> Kernel:
        """Return the kernel of `pack`'s vector."""
        return cls(np.exp(-parameters[:-2]), float(np.exp(parameters[-2])), float(1 / (1 + np.exp(-parameters[-1]))))

    def pack(self) -> np.ndarray:
        """Return the parameters that a fit varies, (d + 2,): log lengths, log noise, logit of the share."""
        return np.append(-np.log(self.scales), [np.log(self.noise), np.log(self.share / (1 - self.share))])

    def covariance(self, point: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the covariance of one point, (d,), with others, (d, k), without the noise."""
        # Contiguous, so that the sums do not depend on how the points were chosen, not even in the last digit.
        squares = ((np.ascontiguousarray(others) - point[:, None]) * self.scales[:, None]) ** 2
        joint, additive = squares.sum(axis=0), _matern(squares).sum(axis=0)
        return np.asarray(self.share / len(point) * additive + (1 - self.share) * _matern(joint))


def fit(kernel: Kernel, points: np.ndarray, values: np.ndarray) -> Kernel:
    """Return the most probable kernel after the observations, starting the search from `kernel`.

    Args:
        points: (n, d).
        values: (n,); their mean and variance are estimated with it.
    """
    count, features = points.shape
    squares = ((points[:, None, :] - points[None, :, :]) ** 2).transpose(2, 0, 1).reshape(features, -1)
    middle, spread = _prior(features)

    def cost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        each = Kernel.unpack(parameters)
        scaled = squares * each.scales[:, None] ** 2
        joint_squares = scaled.sum(axis=0)
        single, joint = _matern(scaled), _matern(joint_squares)
        additive = single.mean(axis=0)
        matrix = (each.share * additive + (1 - each.share) * joint).reshape(count, count)
        matrix[np.diag_indices(count)] += each.noise + JITTER
        factor = scipy.linalg.cholesky(matrix, lower=True)
        inverse = scipy.linalg.cho_solve((factor, True), np.eye(count))
        sums = inverse.sum(axis=1)
        rest = values - sums @ values / sums.sum()
        weights = inverse @ rest
        variance = max(float(rest @ weights) / count, JITTER)
        away = (parameters - middle) / spread
        total = 0.5 * count * np.log(variance) + np.log(np.diag(factor)).sum() + 0.5 * away @ away
        slope = (0.5 * (inverse - np.outer(weights, weights) / variance)).ravel()
        gradient = np.empty_like(parameters)
        gradient[:-2] = -2 * (
            (1 - each.share) * (scaled @ (slope * _slope(joint_squares)))
            + each.share / features * ((_slope(scaled) * scaled) @ slope)
        )
        gradient[-2] = slope[:: count + 1].sum() * each.noise
        gradient[-1] = each.share * (1 - each.share) * (slope @ (additive - joint))
        return float(total), gradient + away / spread

    bounds = [(-4.0, 4.0)] * features + [(LEAST_NOISE, 1.0), (-6.0, 6.0)]
    start = np.clip(kernel.pack(), *np.array(bounds).T)
    found = scipy.optimize.minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    return Kernel.unpack(found.x)


def _prior(features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle and the spread of every parameter; distances grow with the root of the features."""
    length = np.log(LENGTH) + 0.5 * np.log(features / 6)
    middle = np.append(np.full(features, length), [NOISE, 0.0])
    return middle, np.append(np.full(features, LENGTH_SPREAD), [NOISE_SPREAD, SHARE_SPREAD])


def _matern(squares: np.ndarray) -> np.ndarray:
    distance = ROOT * np.sqrt(squares)
    return np.asarray((1 + distance) * np.exp(-distance))


def _slope(squares: np.ndarray) -> np.ndarray:
    """Return the derivative of `_matern` by the square of the distance."""
    return np.asarray(-1.5 * np.exp(-ROOT * np.sqrt(squares)))


class Process:
    """The process at the points of a pool, given observations at some points.

    Adding an observation costs one pass over the pool for each earlier one, and factors no matrix again. That pass is
    limited by memory, so the pool's part is in single precision; the noise has a lower bound for that.

    Args:
        features: (n, d), of all points; the others are indices into it.
        pool: where to predict, (p,).
        points: observed from the start, not empty.
        trend: (n, t), for all points: the mean is a sum of these columns with factors that are estimated.
    """

    def __init__(
        self, kernel: Kernel, features: np.ndarray, pool: np.ndarray, points: Sequence[int], trend: np.ndarray
    ) -> None:
        self.kernel, self.features, self.points, self.trend = kernel, features, list(points), trend
        self._of_pool = np.ascontiguousarray(features[pool].T)
        self._place = np.full(len(features), -1)
        self._place[pool] = np.arange(len(pool))
        count, room = len(points), 2 * len(points) + 16
        seen = features[self.points]
        own = np.array([kernel.covariance(each, seen.T) for each in seen])
        own[np.diag_indices(count)] += kernel.noise + JITTER
        known = np.array([kernel.covariance(each, self._of_pool) for each in seen], np.float32)
        self._factor, self._reach = np.zeros((room, room)), np.empty((room, len(pool)), np.float32)
        self._factor[:count, :count] = factor = scipy.linalg.cholesky(own, lower=True)
        self._reach[:count] = scipy.linalg.solve_triangular(factor.astype(np.float32), known, lower=True)
        self._base = scipy.linalg.solve_triangular(factor, trend[self.points], lower=True)
        self._pool_trend = trend[pool] - self._reach[:count].T @ self._base
        self.variance = np.maximum(1 - np.einsum("ij,ij->j", self._reach[:count], self._reach[:count]), JITTER)
        """The remaining uncertainty at each point of the pool, as a share of the process's variance, (p,)."""

    def add(self, index: int) -> None:
        """Take one more point that is observed."""
        count, place = len(self.points), self._place[index]
        if count == len(self._factor):
            self._factor, self._reach = np.pad(self._factor, (0, count)), np.pad(self._reach, ((0, count), (0, 0)))
        if place >= 0:
            row = self._reach[:count, place].astype(float)
        else:
            shared = self.kernel.covariance(self.features[index], self.features[self.points].T)
            row = scipy.linalg.solve_triangular(self._factor[:count, :count], shared, lower=True, check_finite=False)
        own = np.sqrt(max(1 + self.kernel.noise - row @ row, self.kernel.noise + JITTER))
        self._factor[count, :count], self._factor[count, count] = row, own
        known = self.kernel.covariance(self.features[index], self._of_pool)
        self._reach[count] = reach = (known - row.astype(np.float32) @ self._reach[:count]) / own
        self.variance = np.maximum(self.variance - reach**2, JITTER)
        base = (self.trend[index] - row @ self._base) / own
        self._base = np.vstack([self._base, base])
        self._pool_trend -= np.outer(reach, base)
        self.points.append(index)

    def predict(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean at the points of the pool, (p, k), and the process's variance, (k,).

        Args:
            values: (n, k), k quantities observed at the points in the order in which they were added.
        """
        count = len(values)
        seen = scipy.linalg.solve_triangular(self._factor[:count, :count], values, lower=True, check_finite=False)
        factors = np.linalg.lstsq(self._base, seen, rcond=None)[0]
        rest = seen - self._base @ factors
        mean = self._reach[:count].T @ seen.astype(np.float32) + self._pool_trend @ factors
        return mean, ((rest**2).sum(axis=0) + SCALE_WEIGHT * SCALE**2) / (len(rest) + SCALE_WEIGHT)
