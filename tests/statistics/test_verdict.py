from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from cuprof.core.errors import SelectionError
from cuprof.statistics.contrasts import Contrasts, contrast
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Rule, Verdict, judge


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict"),
    [
        (1.02, 1.005, 1.04, Verdict.SLOWER),
        (0.98, 0.96, 0.995, Verdict.FASTER),
        (1.0, 0.995, 1.005, Verdict.SAME),
        (1.005, 1.002, 1.009, Verdict.SAME),  # established, and too small to matter
        (1.008, 1.001, 1.015, Verdict.UNDECIDED),  # established, and perhaps large enough
        (1.02, 0.99, 1.05, Verdict.UNDECIDED),
        (1.0, 0.98, 1.02, Verdict.UNDECIDED),
        (1.0, 0.0, math.inf, Verdict.UNDECIDED),
    ],
)
def test_the_rule(ratio: float, low: float, high: float, verdict: Verdict) -> None:
    bounds = (np.array([math.log(each) if each else -math.inf]) for each in (ratio, low, high))
    assert Rule().decide(*bounds).tolist() == [verdict]


@pytest.mark.parametrize("changes", [{"effect": 1.0}, {"effect": -0.1}, {"error_rate": 0.0}, {"error_rate": 0.9}])
def test_shares_out_of_range_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(SelectionError, match="share"):
        Rule(**changes)


def fixed(*p_values: float, log_ratio: float = 0.02) -> Contrasts:
    """Return contrasts with normal intervals of known p-values."""
    count = len(p_values)
    deviation = log_ratio / -special.ndtri(np.array(p_values) / 2) / math.sqrt(2)
    noise = np.column_stack((deviation, np.full(count, np.inf), np.zeros(count)))
    none = Contrasts.none_of(count)
    return replace(none, estimate=np.full(count, log_ratio), deviation=np.zeros(count), noise=noise)


def holm(p_values: list[float], error_rate: float) -> list[bool]:
    rejected = [False] * len(p_values)
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] >= error_rate / (len(p_values) - step):
            break
        rejected[place] = True
    return rejected


def test_intervals_exclude_1_exactly_where_holm_rejects() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        p_values = list(rng.random(8) ** 4)
        found = judge(fixed(*p_values), Rule(0.0))
        assert (found["low"] > 1).tolist() == holm(p_values, 0.05)
        assert len(set(found["error_rate"])) == 1


def test_choices_count_as_comparisons() -> None:
    contrasts = fixed(0.02)
    assert judge(contrasts, Rule())["verdict"].tolist() == [Verdict.SLOWER]
    assert judge(contrasts, Rule(), choices=6)["verdict"].tolist() == [Verdict.UNDECIDED]


def test_nothing_to_judge_and_a_single_sample() -> None:
    assert judge(Contrasts.none_of(0), Rule())["verdict"].tolist() == []
    one = Samples.of([np.array([5.0])])
    found = judge(contrast(one, one), Rule())
    assert [found[name][0] for name in ("verdict", "low", "high")] == [Verdict.UNDECIDED, 0.0, math.inf]
