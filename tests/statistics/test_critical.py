from __future__ import annotations

import math

import pytest
from scipy import stats

from cuprof.statistics.noise import critical


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 40, 1000])
@pytest.mark.parametrize("error_rate", [0.5, 0.05, 1e-3, 1e-6])
def test_critical_values_are_students(freedom: int, error_rate: float) -> None:
    assert critical(error_rate, freedom) == pytest.approx(stats.t.isf(error_rate / 2, freedom), rel=1e-9)


def test_infinite_freedom_is_the_normal_distribution() -> None:
    assert critical(0.05, math.inf) == pytest.approx(1.959964, abs=1e-5)
