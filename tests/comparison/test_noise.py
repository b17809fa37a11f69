from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from made import GPU, HOST, Made, fill
from scipy import stats

from cuprof.comparison import Comparison, Contrast, Options, Verdict, compare, load_sides
from cuprof.comparison.noise import ASSUMED_HOST_NOISE, ASSUMED_NOISE, estimate_noise
from cuprof.comparison.shift import Shift
from cuprof.records import DeviceFacts, Measure
from cuprof.store import Store

POCL = DeviceFacts("opencl", 0, "Test pocl", "", 2**34, {"name": "Test pocl"}, {"type": "CPU"})


def run(url: str, options: Options | None = None) -> Comparison:
    return compare(*load_sides("1", "2", url), options)


def seen(log_ratio: float) -> Contrast:
    """Return what two sweeps showed of one trial, with nothing left unknown of their samples."""
    return Contrast(False, Shift(np.array([log_ratio]), np.zeros(1), 1.0, 0.0, math.inf))


@pytest.mark.parametrize("device", [HOST, POCL])
def test_a_cpu_is_assumed_to_vary_more_than_a_gpu(store: Store, url: str, device: DeviceFacts) -> None:
    trials = [Made(device=GPU), Made("second", device=device)]
    fill(store, trials)
    fill(store, [replace(each, time=53.0, source="x") for each in trials], seed=2)
    found = run(url)
    assert {name: noise.value for name, noise in found.noises.items()} == {
        GPU.name: ASSUMED_NOISE,
        device.name: ASSUMED_HOST_NOISE,
    }
    assert [row.verdict for row in found.rows] == [Verdict.SLOWER, Verdict.UNDECIDED]
    assert "assumed for a CPU, not measured" in found.noises[device.name].source
    assert {noise.value for noise in run(url, Options(noise=0.001)).noises.values()} == {0.001}


def test_few_unchanged_trials_show_a_noise_above_the_assumed_one(store: Store, url: str) -> None:
    shifts = {1: 1.04, 2: 0.97, 3: 0.98}
    fill(store, [Made(n=n) for n in (*shifts, 4)])
    changed = Made(n=4, time=52.5, source="x")
    fill(store, [*(Made(n=n, time=50.0 * shift) for n, shift in shifts.items()), changed], seed=2)
    found = run(url)
    noise = found.noises[GPU.name]
    assert noise.value == pytest.approx(math.sqrt((0.04**2 + 0.03**2 + 0.02**2) / 3 / 2), rel=0.1)
    assert (noise.freedom, noise.least) == (3, ASSUMED_NOISE)
    assert "3 trials in which nothing has changed" in noise.source
    assert found.counts[Verdict.SLOWER] == found.counts[Verdict.FASTER] == 0


def test_few_count_by_students_t_and_never_below_what_is_assumed() -> None:
    noise = estimate_noise([seen(0.03), seen(-0.04)], 2, ASSUMED_NOISE)
    assert noise.deviation == pytest.approx(0.025)
    assert noise.reach(0.01) == pytest.approx(0.025 * stats.t.isf(0.005, 2), rel=1e-3)
    quiet = estimate_noise([seen(0.0)], 1, ASSUMED_NOISE)
    assert (quiet.value, quiet.reach(0.05)) == (ASSUMED_NOISE, pytest.approx(1.96 * ASSUMED_NOISE, rel=1e-3))


def test_two_measures_of_a_trial_are_one_degree_of_freedom(store: Store, url: str) -> None:
    both = Made(measures=(Measure.COLD, Measure.HOT))
    fill(store, [replace(both, n=n) for n in range(1, 6)])
    fill(store, [replace(both, n=n) for n in range(1, 6)], seed=2)
    noise = run(url).noises[GPU.name]
    assert noise.freedom == 5
    assert "5 trials" in noise.source


def test_many_unchanged_trials_are_taken_for_what_they_show(store: Store, url: str) -> None:
    trials = [Made(n=number, noise=0.001) for number in range(1, 31)]
    fill(store, trials)
    fill(store, [replace(each, time=each.time * (1.006 if each.n % 2 else 0.994)) for each in trials], seed=2)
    found = run(url)
    noise = found.noises[GPU.name]
    assert noise.source == "estimated from 30 trials in which nothing has changed"
    assert 0.004 < noise.value < 0.012
    assert found.counts[Verdict.SLOWER] == found.counts[Verdict.FASTER] == 0
    assert run(url, Options(noise=0.0)).noises[GPU.name].value == 0.0


def test_a_gpus_unchanged_trials_say_nothing_of_the_host(store: Store, url: str) -> None:
    trials = [*(Made(n=number) for number in range(1, 11)), Made("second", device=HOST)]
    fill(store, trials)
    fill(store, [replace(each, source="x") if each.device is HOST else each for each in trials], seed=2)
    noises = run(url).noises
    assert noises[GPU.name].value < 0.001  # of equal series
    assert noises[HOST.name].value == ASSUMED_HOST_NOISE
