"""The SM clock from the device's two counters, and the middle of the timer's own cost."""

from __future__ import annotations

import pytest

from cuprof.backends.cuda.timing import clock_mhz, middle_mean


def test_the_clock_is_cycles_over_time() -> None:
    assert clock_mhz(39_600, 20_000, 32) == pytest.approx(1980.0)


@pytest.mark.parametrize(("duration_ns", "told"), [(51_199, False), (51_200, True), (0, False)])
def test_steps_that_are_too_coarse_tell_no_clock(duration_ns: int, told: bool) -> None:
    assert (clock_mhz(100_000, duration_ns, 1024) is not None) is told


def test_the_middle_of_a_cost_with_two_levels_lies_between_them_by_their_shares() -> None:
    low, high = [2690.0] * 30, [2850.0] * 30
    assert middle_mean(low + high + [9000.0, 100.0]) == pytest.approx(2770, abs=5)
    assert middle_mean([3.0]) == 3.0
    assert middle_mean([1.0, 2.0, 3.0, 50.0]) == 2.5
