from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from cuprof.analysis.ratio import ratio_of_medians


def samples(values) -> pd.DataFrame:
    return pd.DataFrame({"round": range(len(values)), "duration_ns": np.asarray(values, float)})


def test_shared_drift_cancels_in_paired_rounds_only() -> None:
    drift = np.linspace(1.0, 2.0, 60)  # the clock fell by half while both were measured, round by round
    slow, fast = samples(200 * drift), samples(100 * drift)
    paired, alone = ratio_of_medians(slow, fast, paired=True), ratio_of_medians(slow, fast, paired=False)
    assert paired.value == alone.value == pytest.approx(2.0)
    assert (paired.low, paired.high) == pytest.approx((2.0, 2.0))
    assert alone.high - alone.low > 0.2
    assert paired.paired
    assert not alone.paired


def test_several_samples_a_round_are_resampled_with_their_round() -> None:
    rounds = np.repeat(np.arange(10), [1, 2, 3, 1, 2, 3, 1, 2, 3, 4])
    slow = pd.DataFrame({"round": rounds, "duration_ns": 300.0})
    fast = pd.DataFrame({"round": rounds, "duration_ns": 100.0})
    assert ratio_of_medians(slow, fast, paired=True).low == pytest.approx(3.0)


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(60):
        slow, fast = samples(random.normal(110, 8, 50)), samples(random.normal(100, 8, 50))
        ratio = ratio_of_medians(slow, fast, paired=False)
        hits += ratio.low <= 1.1 <= ratio.high
    assert 52 <= hits <= 60


def test_too_few_samples_carry_no_interval() -> None:
    ratio = ratio_of_medians(samples([2, 2]), samples([1, 1, 1, 1, 1, 1, 1]), paired=True)
    assert ratio.value == 2
    assert math.isnan(ratio.low)
    assert not ratio.known
    assert not ratio.established


def test_the_same_samples_give_the_same_interval() -> None:
    values = np.random.default_rng(1).normal(100, 5, 40)
    first, again = (ratio_of_medians(samples(values), samples(values[::-1]), paired=False) for _ in range(2))
    assert first == again
    assert not first.established


def test_the_interval_belongs_to_the_ratio_of_all_samples() -> None:
    # one trial went on for many rounds after the other had ended, and the machine had become faster by then
    slow = samples([200.0] * 20)
    fast = samples([100.0 + i % 3 for i in range(20)] + [80.0 + i % 3 for i in range(60)])
    ratio = ratio_of_medians(slow, fast, paired=True)
    assert ratio.paired
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.value == pytest.approx(200 / 82, rel=0.02)
