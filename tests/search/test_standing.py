"""The final comparison of a search: how often it crowns the wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from cuprof.search.standing import Standing, look
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Rule, Verdict


def sample(medians: list[float], rng: np.random.Generator, count: int) -> dict[int, Samples]:
    """Return interleaved samples: each round has a drift that all share, and each sample noise with outliers."""
    drift = 1 + 0.004 * np.sin(np.arange(count) / 9)
    rounds = np.arange(count)
    series = {}
    for number, median in enumerate(medians):
        noise = np.exp(0.004 * rng.standard_normal(count)) + 0.05 * (rng.random(count) < 0.03)
        series[number] = Samples.of([median * drift * noise], [rounds], rotation="side by side")
    return series


def test_what_is_clearly_slower_is_beaten_and_what_is_equal_is_level() -> None:
    medians = [10_000.0, 10_000.0, 10_500.0]
    standing = look(sample(medians, np.random.default_rng(1), 200), Rule(0.01, 0.05))
    assert {standing.best, *standing.list_judged(Verdict.SAME)} == {0, 1}
    assert standing.list_judged(Verdict.SLOWER) == [2]
    assert standing.list_judged(Verdict.UNDECIDED) == []


@pytest.mark.parametrize("count", [1, 3])
def test_few_samples_tell_nothing(count: int) -> None:
    standing = look(sample([10_000.0, 10_050.0], np.random.default_rng(1), count), Rule())
    assert standing.list_judged(Verdict.SLOWER) == []


def test_a_single_candidate_is_the_best() -> None:
    assert look(sample([1.0], np.random.default_rng(1), 5), Rule()) == Standing(0, {})


def test_what_earlier_looks_found_slower_is_told_apart_from_what_the_last_did() -> None:
    medians = [10_000.0, 10_000.0, 10_500.0]
    standing = look(sample(medians, np.random.default_rng(1), 200), Rule(0.01, 0.05))
    said = standing.describe("number {}".format, 0.01, 0.05, 4).replace("\N{NO-BREAK SPACE}", " ")
    (level,) = standing.list_judged(Verdict.SAME)
    assert (
        said == f"level with number {level} (within 1 %), faster than 1, than 4 in earlier comparisons; error rate 5 %"
    )
    assert Standing(0, {}).describe(str, 0.01, 0.05, 2).startswith("faster than 2 in earlier comparisons; error rate")
