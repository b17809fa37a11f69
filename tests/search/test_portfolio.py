"""The fewest configurations for all problems."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cuprof.report.portfolio import find_portfolio


def is_cover(times: np.ndarray, chosen: tuple[int, ...], within: float) -> bool:
    return bool(np.all(np.nanmin(times[:, list(chosen)], axis=1) <= (1 + within) * np.nanmin(times, axis=1)))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_as_small_as_the_smallest_of_all_subsets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = rng.uniform(1, 1.3, (12, 9))
    chosen = find_portfolio(times, 0.08)
    assert is_cover(times, tuple(chosen), 0.08)
    assert not any(is_cover(times, each, 0.08) for each in combinations(range(9), len(chosen) - 1) if each)


def test_of_equal_size_the_faster_one_is_taken_and_gaps_are_no_times() -> None:
    times = np.array([[1.00, 1.04, np.nan], [1.04, 1.00, 1.0], [1.0, 1.04, 1.0]])
    assert find_portfolio(times, 0.05) == [0]
    assert find_portfolio(times, 0.01) == [0, 1] or find_portfolio(times, 0.01) == [0, 2]
