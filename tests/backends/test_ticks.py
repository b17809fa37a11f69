"""The step of a timer, from its readings."""

from __future__ import annotations

import numpy as np
import pytest

from cuprof.backends.contract import smallest_step


@pytest.mark.parametrize("tick", [32.0, 1024.0, 1.0])
def test_the_step_is_the_least_difference_of_many_readings(tick: float) -> None:
    steps = np.random.default_rng(1).integers(80, 90, 200)
    assert smallest_step([float(tick * step) for step in steps]) == tick


def test_rounding_of_single_precision_is_no_step() -> None:
    milliseconds = np.random.default_rng(1).integers(80, 90, 200).astype(np.float32) * np.float32(32e-6)
    assert smallest_step([float(each) * 1e6 for each in milliseconds]) == pytest.approx(32.0, abs=0.11)


@pytest.mark.parametrize("durations", [[], [5.0], [5.0, 5.0, 5.0], [5.0, 7.5, 9.0]])
def test_readings_without_ties_or_of_one_value_tell_no_step(durations: list[float]) -> None:
    assert smallest_step(durations) == 0.0
