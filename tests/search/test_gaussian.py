"""The process that grows by one observation at a time, held against one that is worked out at once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cuprof.search.gaussian import Kernel, Process

POINTS = np.array(list(product(np.linspace(0, 1, 5), np.linspace(0, 1, 4), [0.0, 1.0])))
KERNEL = Kernel(np.array([1.0, 2.0, 0.5]), 1e-3, 0.4)
TREND = np.column_stack([np.ones(len(POINTS)), np.arange(len(POINTS)) % 2])
VALUES = np.column_stack([np.sin(3 * POINTS[:, 0]) + POINTS[:, 1], POINTS[:, 2] - POINTS[:, 0]])


def at_once(points: list[int], values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means, and what is unknown, at all points, by Rasmussen & Williams (2.42) and (2.26)."""
    scaled = np.abs(POINTS[:, None] - POINTS[None]) * KERNEL.scales
    matern = lambda distance: (1 + 3**0.5 * distance) * np.exp(-(3**0.5) * distance)  # noqa: E731
    covariance = KERNEL.share * matern(scaled).mean(axis=2) + (1 - KERNEL.share) * matern(
        np.sqrt((scaled**2).sum(axis=2))
    )
    own = covariance[np.ix_(points, points)] + KERNEL.noise * np.eye(len(points))
    weights, trend = np.linalg.inv(own), TREND[points]
    factors = np.linalg.solve(trend.T @ weights @ trend, trend.T @ weights @ values)
    reach = covariance[:, points]
    return TREND @ factors + reach @ weights @ (values - trend @ factors), 1 - ((reach @ weights) * reach).sum(axis=1)


@pytest.mark.parametrize("pool", [np.arange(len(POINTS)), np.arange(0, len(POINTS), 3)])
def test_a_process_that_grew_and_was_told_otherwise_is_the_one_worked_out_at_once(pool: np.ndarray) -> None:
    random = np.random.default_rng(1)
    points = list(map(int, random.permutation(len(POINTS))[:24]))
    process = Process(KERNEL, POINTS, pool, points[:2], TREND)
    for count in range(2, len(points)):
        process.add(points[count])
        values = VALUES[points[: count + 1]].copy()
        values[count:] += 0.5  # what is believed of the last one, and corrected when the next comes
        means, variances = process.predict(values)
    expected, unknown = at_once(points, values)
    assert means == pytest.approx(expected[pool], abs=2e-4)
    assert process.variance == pytest.approx(unknown[pool], abs=1e-4)
    assert variances.shape == (2,)
