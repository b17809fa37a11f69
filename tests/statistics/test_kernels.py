"""The loops over ragged pairs, compiled and not."""

from __future__ import annotations

import numpy as np
import pytest

from cuprof.statistics import kernels
from cuprof.statistics.kernels import find_quantiles, placement_variances

PAIRS = 40
WAYS = ("NumPy", "NumPy, of many differences", "Numba")


def draw(tied: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(7)
    sides = []
    for _ in range(2):
        series = [np.sort(rng.standard_normal(int(rng.choice([1, 2, 7, 20, 90])))) for _ in range(PAIRS)]
        sides.append([np.round(each, 1) for each in series] if tied else series)
    return sides[0], sides[1]


def joined(series: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(series), np.cumsum([each.size for each in series])


@pytest.fixture(params=WAYS)
def _how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(request.param, monkeypatch)


def choose(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == WAYS[1]:
        monkeypatch.setattr(kernels, "FEW_DIFFERENCES", 0)
    loops = kernels._jitted() if how == "Numba" else (kernels._quantiles, kernels._placements)
    monkeypatch.setattr(kernels, "_choose_loops", lambda pairs: loops)


def test_loops_are_compiled_for_many_pairs_and_used_for_few_once_they_are_loaded() -> None:
    kernels._jitted.cache_clear()
    assert kernels._choose_loops(kernels.WORTH_COMPILING - 1) == (kernels._quantiles, kernels._placements)
    compiled = kernels._choose_loops(kernels.WORTH_COMPILING)
    assert kernels._choose_loops(1) == compiled != (kernels._quantiles, kernels._placements)


@pytest.mark.usefixtures("_how")
@pytest.mark.parametrize("tied", [True, False])
def test_quantiles_are_those_of_all_differences(tied: bool) -> None:
    first, second = draw(tied)
    shares = np.tile([0.5, 0.1, 0.97], (PAIRS, 1))
    found = find_quantiles(*joined(first), *joined(second), shares)
    for x, y, quantiles in zip(first, second, found, strict=True):
        differences = np.sort((y[:, None] - x[None, :]).ravel())
        ranks = [max(1, int(np.ceil(share * differences.size))) - 1 for share in (0.5, 0.1, 0.97)]
        assert quantiles == pytest.approx(differences[ranks], abs=1e-8)


@pytest.mark.usefixtures("_how")
def test_a_quantile_lies_beside_its_difference_so_that_moved_samples_do_not_tie() -> None:
    first, second = draw(True)
    middle = find_quantiles(*joined(first), *joined(second), np.full((PAIRS, 1), 0.5))[:, 0]
    for x, y, shift in zip(first, second, middle, strict=True):
        assert x.size * y.size == 1 or not np.isin(y[:, None] - x[None, :], [shift]).any()


@pytest.mark.usefixtures("_how")
def test_placements_are_shares_of_the_other_series_ties_by_half() -> None:
    first, second = draw(True)
    found = placement_variances(*joined(first), *joined(second), np.zeros(PAIRS))
    for x, y, variances in zip(first, second, found, strict=True):
        below = (y[None, :] < x[:, None]) + 0.5 * (y[None, :] == x[:, None])
        if min(x.size, y.size) > 1:
            assert variances[0] == pytest.approx(below.mean(axis=1).var(ddof=1))
            assert variances[1] == pytest.approx(below.mean(axis=0).var(ddof=1))


def test_all_ways_give_the_same_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = draw(False)
    shares = np.tile([0.5, 0.25], (PAIRS, 1))
    found = []
    for how in WAYS:
        choose(how, monkeypatch)
        found.append(find_quantiles(*joined(first), *joined(second), shares))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
