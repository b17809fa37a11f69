"""The stated error rate and power, on some hundred simulated comparisons; benchmarks/ has the larger table.

Errors of so many comparisons are held against the binomial bound: a method that errs as often as stated exceeds it once
in a hundred seeds, and the seeds are fixed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from scipy import stats

from cuprof.statistics.verdict import Verdict

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.comparison_error_rates import (
    SCENARIOS,
    SLOWDOWN,
    Scenario,
    any_called,
    called,
    estimated_noise_errors,
    gaussian,
    misses,
    simulate,
    verdicts,
)

COUNT = 60
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
QUICK = [name for name in BY_NAME if "two modes" not in name]  # whose 2000 samples a series take a minute
MOST_MISSES = {"autocorrelation 0.6, paired": 0.12, "one step of 0.3 % in 20 samples, unpaired": 0.15}


def most(count: int, rate: float = 0.05) -> float:
    """Return the share of errors that so many comparisons exceed once in a hundred seeds at this rate."""
    return float(stats.binom.isf(0.01, count, rate)) / count


@pytest.mark.parametrize("name", QUICK)
def test_equal_times_are_called_different_no_more_often_than_stated(name: str) -> None:
    equal = simulate(BY_NAME[name], 1.0, COUNT)
    assert called(verdicts(equal), Verdict.SLOWER, Verdict.FASTER) <= 0.05
    assert misses(equal, 1.0) <= MOST_MISSES.get(name, most(COUNT))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("deviation", [0.003, 0.01])
def test_a_slowdown_of_one_and_a_half_percent_is_found(deviation: float, together: bool) -> None:
    slower = simulate(Scenario("", gaussian(deviation), together=together), SLOWDOWN, 100, seed=2)
    said = verdicts(slower)
    assert called(said, Verdict.SLOWER) >= 0.95
    assert called(verdicts(slower, 100), Verdict.SLOWER) >= 0.90
    assert called(said, Verdict.SAME, Verdict.FASTER) <= 0.01


def test_a_difference_that_matters_is_not_called_same() -> None:
    border = simulate(Scenario("", gaussian(0.005)), 1.01, COUNT, seed=3)
    assert called(verdicts(border), Verdict.SAME) <= most(COUNT)


@pytest.mark.parametrize(("count", "deviation", "groups"), [(2000, 0.02, 20), (5, 0.03, 20), (6, 0.03, 20)])
def test_the_rate_holds_for_all_comparisons_together(count: int, deviation: float, groups: int) -> None:
    equal = simulate(Scenario("", gaussian(deviation), most=count), 1.0, 20 * groups, seed=6)
    assert any_called(verdicts(equal, 20), Verdict.SLOWER, Verdict.FASTER) <= most(groups)


@pytest.mark.parametrize("together", [True, False])
def test_one_or_two_samples_say_undecided_whatever_they_show(together: bool) -> None:
    for count in (1, 2):
        few = Scenario("", gaussian(0.001), together=together, most=count)
        assert called(verdicts(simulate(few, 2.0, 20, seed=7)), Verdict.UNDECIDED) == 1


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("together", [True, False])
def test_few_samples_of_equal_times_say_undecided(count: int, together: bool) -> None:
    few = Scenario("", gaussian(0.01), together=together, most=count)
    said = verdicts(simulate(few, 1.0, COUNT, seed=7))
    assert called(said, Verdict.UNDECIDED) >= 0.92
    assert called(said, Verdict.SLOWER, Verdict.FASTER) <= 0.05


@pytest.mark.parametrize(
    ("controls", "between", "groups"), [(20, 0.01, 24), (1, 0.002, 40), (1, 0.02, 40), (7, 0.02, 24)]
)
def test_the_rate_holds_between_sweeps_with_the_noise_estimated(controls: int, between: float, groups: int) -> None:
    others = 4 if controls < 8 else 0
    assert estimated_noise_errors(between, controls, groups, others=others) <= most(groups)


def test_a_common_drift_does_not_blind_a_comparison_of_the_same_rounds() -> None:
    drifting = simulate(BY_NAME["common drift of 5 %, paired"], SLOWDOWN, COUNT // 2, seed=5)
    assert called(verdicts(drifting), Verdict.SLOWER) >= 0.9
    assert drifting.paired.sum() > COUNT / 4
