"""From legs to verdicts, on made samples."""

from __future__ import annotations

import numpy as np
import pytest

from cuprof.comparison.trials import make_trials
from cuprof.core.point import Point
from cuprof.core.records import Measure
from cuprof.judge.verdict import Leg, Legs, compare_legs, is_accepted
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Rule, Verdict

US = 1e3


def leg(variant: str, median_ns: float, seed: int, method: str = "m", identity: str = "", n: int = 4) -> Leg:
    """Return one leg: 50 samples that scatter by 1 %."""
    samples = Samples.of([median_ns * np.random.default_rng(seed).normal(1.0, 0.01, 50)], tick_ns=1.0)
    facts = {"family": "f", "variant": variant, "problem": Point(n=n), "backend": "cuda", "device": "GPU"}
    named = {"identity": identity or variant, "method": method, "series": {Measure.COLD: samples}}
    trials, _ = make_trials([{**facts, **named}])
    return Leg(trials, samples)


def legs(variant: str, *medians_ns: float, method: str = "m") -> Legs:
    start = 100 * len(variant)
    return Legs(variant, [leg(variant, median, start + number, method) for number, median in enumerate(medians_ns)])


@pytest.mark.parametrize(
    ("medians_us", "verdict"),
    [
        ((80, 80, 80), Verdict.FASTER),
        ((120, 120, 120), Verdict.SLOWER),
        ((100, 100, 100), Verdict.SAME),
    ],
)
def test_verdicts_are_those_of_compare(medians_us: tuple[float, ...], verdict: Verdict) -> None:
    base = legs("base", *[100 * US] * 4)
    (((row,), _),), _ = compare_legs([(base, legs("new", *(US * each for each in medians_us)))], Rule(), 0.001)
    assert row.judgement.verdict is verdict
    assert row.judgement.ratio == pytest.approx(medians_us[0] / 100, rel=0.01)
    assert row.base_ns == pytest.approx(100 * US, rel=0.01)
    assert is_accepted([row]) == (verdict is not Verdict.SLOWER)


def test_what_the_baseline_does_from_leg_to_leg_widens_the_interval() -> None:
    new = legs("new", *[90 * US] * 3)
    (((calm,), _),), _ = compare_legs([(legs("base", *[100 * US] * 4), new)], Rule(), None)
    base = legs("base", 80 * US, 120 * US, 85 * US, 110 * US)
    (((restless,), _),), noises = compare_legs([(base, new)], Rule(), None)
    assert calm.judgement.verdict is Verdict.FASTER
    assert restless.judgement.verdict is Verdict.UNDECIDED
    assert noises["GPU"].source == "estimated"


def test_the_judges_own_clock_has_noise_of_its_own() -> None:
    widths = []
    for over_border in (False, True):
        base, new = legs("base", 4 * US, 4 * US), legs("new", 4 * US)
        base.over_border = new.over_border = over_border
        (((row,), _),), noises = compare_legs([(base, new)], Rule(), None)
        widths.append(row.judgement.high - row.judgement.low)
        assert ("the judge's clock" in noises["GPU"].text) == over_border
    assert widths[1] < 0.8 * widths[0]


def test_more_legs_narrow_the_interval() -> None:
    widths = []
    for count in (1, 4):
        pair = (legs("base", *[100 * US] * (count + 1)), legs("new", *[100 * US] * count))
        (((row,), _),), _ = compare_legs([pair], Rule(), 0.02)
        widths.append(row.judgement.high - row.judgement.low)
    assert widths[1] < 0.6 * widths[0]


def test_times_of_other_methods_are_not_compared() -> None:
    pair = (legs("base", 100 * US), legs("new", 50 * US, method="other"))
    ((rows, problems),), _ = compare_legs([pair], Rule(), 0.01)
    assert rows == ()
    assert "measured differently from the baseline's" in problems[0]
    assert not is_accepted(rows)


def test_a_problem_that_the_baseline_alone_was_timed_at_is_told() -> None:
    base, new = legs("base", 100 * US, 100 * US), legs("new", 50 * US)
    base.legs.append(leg("base", 100 * US, 1, identity="other", n=5))
    for omitted, told in ({}, ""), ({Point(n=5): "too large"}, ": too large"):
        new.omitted = omitted
        ((rows, problems),), _ = compare_legs([(base, new)], Rule(), 0.01)
        assert len(rows) == 1
        assert problems == (f"it has no time at n=5, where the baseline has one{told}",)


def test_a_drift_is_told() -> None:
    assert list(legs("base", 100 * US, 101 * US).drifts()) == []
    (told,) = legs("base", 100 * US, 130 * US).drifts()
    assert told.startswith("f/base · n=4: cold time in turns: ")


def test_each_leg_is_one_control_at_most() -> None:
    base = Legs("base", [leg("base", 100 * US, seed) for seed in range(5)])
    assert len(list(base.controls())) == 2
    base.legs[1] = leg("base", 100 * US, 1, identity="other")
    assert len(list(base.controls())) == 1
