"""Samples of many series in ragged arrays give the figures that each series gives by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cuprof.core.records import Sample
from cuprof.statistics.median import summarise
from cuprof.statistics.samples import Samples, order_of

TICK = 32.0


def ticking(rng: np.random.Generator, count: int, tick: float = TICK) -> np.ndarray:
    """Return durations that stand on few ticks."""
    return np.asarray(tick * np.round((3000.0 + 40.0 * rng.standard_normal(count)) / tick))


@pytest.fixture
def series() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [ticking(rng, 21), 1e4 + rng.random(6), np.array([5.0]), np.array([7.0, 7.0]), ticking(rng, 100)]


def test_series_are_taken_in_the_order_asked_for(series: list[np.ndarray]) -> None:
    samples = Samples.of(
        series, [np.arange(each.size) for each in series], tick_ns=[1.0, 2.0, 3.0, 4.0, 5.0], rotation=list("abcde")
    )
    taken = samples.take([4, 0, 0])
    assert taken.values.tolist() == np.concatenate([series[place] for place in (4, 0, 0)]).tolist()
    assert taken.rounds.tolist() == [*range(100), *range(21), *range(21)]
    assert (taken.tick_ns.tolist(), taken.rotation.tolist()) == ([5.0, 1.0, 1.0], ["e", "a", "a"])
    assert (taken.counts.tolist(), taken.ends.tolist()) == ([100, 21, 21], [100, 121, 142])
    assert len(samples.take([])) == len(Samples.of([])) == 0


def test_medians_are_those_stored_with_a_timing(series: list[np.ndarray]) -> None:
    samples = Samples.of(series, tick_ns=[TICK, 0.0, 0.0, TICK, TICK])
    for each, tick, median in zip(series, samples.tick_ns, samples.medians().tolist(), strict=True):
        assert median == summarise([Sample(0, float(value)) for value in each], tick_ns=float(tick)).median_ns


def test_ties_are_spread_evenly_over_their_tick() -> None:
    samples = Samples.of([np.array([32.0, 64.0, 32.0, 64.0, 64.0, 96.0])], tick_ns=TICK)
    logarithms, _ = samples.logarithms()
    assert samples.ticks().tolist() == [TICK]
    expected = [32 - 8, 32 + 8, 64 - 32 / 3, 64, 64 + 32 / 3, 96]
    assert sorted(np.exp(logarithms)) == pytest.approx(expected)
    assert np.exp(logarithms[5]) == pytest.approx(96)


def test_a_tick_that_is_not_known_is_the_least_step_of_tied_samples() -> None:
    tied, untied = np.array([8.0, 4.0, 4.0]), np.array([8.0, 4.0, 5.0])
    assert Samples.of([tied, untied, np.array([4.0, 4.0])]).ticks().tolist() == [4.0, 0.0, 0.0]


def test_each_series_is_spread_as_by_itself_and_two_seeds_order_ties_in_two_ways(series: list[np.ndarray]) -> None:
    samples = Samples.of(series)
    together, _ = samples.logarithms(7)
    alone = np.concatenate([Samples.of([each]).logarithms(7)[0] for each in series])
    assert np.array_equal(together, alone)
    assert not np.array_equal(together, samples.logarithms(8)[0])
    assert np.allclose(together, np.log(samples.values), atol=math.log1p(TICK / 2900))


def test_a_known_tick_spreads_what_fell_on_one_value() -> None:
    samples = Samples.of([np.full(4, 96.0)], tick_ns=32.0)
    logarithms, _ = samples.logarithms()
    assert samples.ticks().tolist() == [32.0]
    assert sorted(np.exp(logarithms)) == pytest.approx([84.0, 92.0, 100.0, 108.0])


@pytest.mark.parametrize("durations", [[1.0, 2.0, 4.5], [7.0, 7.0, 7.0], [3.0]])
def test_samples_without_ties_or_without_a_second_value_stay(durations: list[float]) -> None:
    samples = Samples.of([np.array(durations)])
    logarithms, _ = samples.logarithms()
    assert np.exp(logarithms) == pytest.approx(durations)
    assert samples.ticks().tolist() == [0.0]


def test_each_series_is_sorted_by_itself_and_a_seed_orders_what_is_equal(series: list[np.ndarray]) -> None:
    values, ends = np.concatenate(series), np.cumsum([each.size for each in series])
    number = np.arange(len(series)).repeat([each.size for each in series])
    assert np.array_equal(order_of(values, ends), np.lexsort((values, number)))
    seeded = order_of(values, ends, 5)
    assert np.array_equal(values[seeded], values[order_of(values, ends)])
    assert not np.array_equal(seeded, order_of(values, ends))
    assert order_of(np.empty(0), np.empty(0, np.int64)).size == 0
