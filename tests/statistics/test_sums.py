from __future__ import annotations

import math

import numpy as np
import pytest

from cuprof.statistics.sums import BESIDE, ENOUGH, MOST_LISTED, Sums, find_quantiles, ranks_of, select

RNG = np.random.default_rng(8)
DRAWN = {
    "normal": RNG.standard_normal,
    "heavy tails": RNG.standard_cauchy,
    "ties": lambda count: RNG.integers(0, 4, count).astype(float),
    "rounded thirds": lambda count: RNG.integers(0, 5, count) / 3,
    "around 0": lambda count: RNG.integers(-1, 2, count).astype(float),
    "constant": lambda count: np.full(count, 0.1),
    "two far apart": lambda count: RNG.choice([0.0, 1e9], count) + RNG.standard_normal(count),
}


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("sizes", [(1, 1), (1, 60), (3, 500), (47, 48), (70, 90), (400, 300)])
def test_a_sum_is_found_by_its_rank(kind: str, sizes: tuple[int, int]) -> None:
    first, second = (np.sort(DRAWN[kind](size)) for size in sizes)
    every = np.sort((first[:, None] + second).ravel())
    sums = Sums(first, second)
    assert (sums.size, sums.lowest, sums.highest) == (every.size, every[0], every[-1])
    ranks = [max(1, math.ceil(share * every.size)) for share in (0.0, 1e-4, 0.03, 0.5, 0.97, 0.9999, 1.0)]
    expected = every[[rank - 1 for rank in ranks]]
    error = 0.0 if every.size <= MOST_LISTED else ENOUGH * max(abs(every[0]), abs(every[-1]))
    found, lowest, highest = select([sums] * len(ranks), np.array(ranks))
    assert np.abs(found - expected).max() <= error
    assert {*lowest, *highest} == {every[0], every[-1]}


def test_ten_thousand_equal_elements_are_not_listed() -> None:
    sums = Sums(np.full(10_000, 0.1), np.full(10_000, 0.2))
    assert select([sums], np.array([sums.size // 2]))[0, 0] == pytest.approx(0.3)


def test_quantiles_of_many_sums_are_found_at_once() -> None:
    sizes = [(1, 1), (3, 200), (47, 48), (90, 70), (20, 20), (400, 300)]
    assert sizes[-1][0] * sizes[-1][1] > MOST_LISTED > sizes[3][0] * sizes[3][1]
    made = [
        Sums(*(np.sort(draw(size)) for size in pair), factor=factor)
        for draw in DRAWN.values()
        for pair in sizes
        for factor in (1.0, 0.5)
    ]
    wanted = [sums for sums in made for _ in range(5)]
    ranks = ranks_of(np.array(len(made) * [0.0, 0.2, 0.5, 0.99, 1.0]), np.array([sums.size for sums in wanted]))
    for sums, rank, found in zip(wanted, ranks, find_quantiles(wanted, ranks), strict=True):
        every = sums.factor * np.sort((sums.first[:, None] + sums.second).ravel())
        assert abs(found - every[rank - 1]) <= 2 * BESIDE * max(1.0, abs(every[0]), abs(every[-1]))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.99, 1.0])
def test_a_quantile_is_the_same_whether_others_of_its_sums_are_asked_for(share: float) -> None:
    sizes = [(1, 1), (3, 200), (47, 48), (90, 70), (20, 20)]
    made = [[np.sort(draw(size)) for size in pair] for draw in DRAWN.values() for pair in sizes]
    asked = [Sums(*pair) for pair in made]
    sizes = np.array([sums.size for sums in asked])
    alone = find_quantiles(asked, ranks_of(share, sizes))
    ranks = np.concatenate([ranks_of(each, sizes) for each in (0.1, share, 0.7)])
    assert alone.tolist() == find_quantiles(3 * asked, ranks)[len(asked) : 2 * len(asked)].tolist()
    assert alone[0] == find_quantiles(asked[:1], ranks_of(share, sizes[:1]))[0]
