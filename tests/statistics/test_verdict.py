from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cuprof.errors import SelectionError
from cuprof.statistics import Rule, Series, Verdict, contrast, judge


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
    bounds = [math.log(each) if each else -math.inf for each in (ratio, low, high)]
    assert Rule().decide(*bounds) is verdict


@pytest.mark.parametrize("changes", [{"effect": 1.0}, {"effect": -0.1}, {"error_rate": 0.0}, {"error_rate": 0.9}])
def test_shares_out_of_range_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(SelectionError, match="share"):
        Rule(**changes)


@dataclass
class Fixed:
    """A contrast with a normal interval of known p-value."""

    p_value: float
    paired: bool = True
    log_ratio: float = 0.02
    shifts: tuple[Any, ...] = ()

    def may_differ(self, error_rate: float) -> bool:
        return True

    def log_bounds(self, error_rate: float) -> tuple[float, float]:
        width = self.log_ratio * (1 + (self.p_value - error_rate))
        return self.log_ratio - width, self.log_ratio + width


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
        found = judge([Fixed(p) for p in p_values], Rule(0.0))  # type: ignore[misc]
        assert [each.low > 1 for each in found] == holm(p_values, 0.05)
        assert len({each.error_rate for each in found}) == 1


def test_choices_count_as_comparisons() -> None:
    contrasts = [Fixed(0.02)]
    assert judge(contrasts, Rule())[0].verdict is Verdict.SLOWER  # type: ignore[arg-type]
    assert judge(contrasts, Rule(), choices=6)[0].verdict is Verdict.UNDECIDED  # type: ignore[arg-type]


def test_nothing_to_judge_and_a_single_sample() -> None:
    assert judge([], Rule()) == []
    one = Series(np.array([5.0]))
    found = judge([contrast(one, one)], Rule())[0]
    assert (found.verdict, found.low, found.high) == (Verdict.UNDECIDED, 0.0, math.inf)
