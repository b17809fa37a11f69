"""The SM clock from the device's two counters."""

from __future__ import annotations

import pytest

from cuprof.backends.cuda_timing import clock_mhz


def test_the_clock_is_cycles_over_time() -> None:
    assert clock_mhz(39_600, 20_000, 32) == pytest.approx(1980.0)


@pytest.mark.parametrize(("duration_ns", "told"), [(51_199, False), (51_200, True), (0, False)])
def test_steps_that_are_too_coarse_tell_no_clock(duration_ns: int, told: bool) -> None:
    assert (clock_mhz(100_000, duration_ns, 1024) is not None) is told
