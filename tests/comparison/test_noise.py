from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made import GPU, HOST, Made, fill
from scipy import stats

from cuprof.comparison.compare import Comparison, Options, compare
from cuprof.comparison.noise import (
    HOST as ON_HOST,
)
from cuprof.comparison.noise import (
    ONE_LAUNCH,
    OPENCL,
    SEVERAL_LAUNCHES,
    TRANSFERS,
    add_models,
    noise_between,
)
from cuprof.comparison.sides import load_sides
from cuprof.comparison.trials import each
from cuprof.core.records import DeviceFacts, Measure
from cuprof.statistics.contrasts import Contrasts
from cuprof.statistics.noise import AS_MODELLED, Noise, NoiseModel, SweepNoise, estimate_scale
from cuprof.statistics.verdict import Verdict
from cuprof.store.store import Store

GPU_BY_OPENCL = DeviceFacts("opencl", 0, "Test GPU 9000", "u0", 2**34, {"name": "x"}, {"type": "GPU"})
POCL = DeviceFacts("opencl", 0, "Test pocl", "", 2**34, {"name": "Test pocl"}, {"type": "CPU"})


def run(url: str, options: Options | None = None) -> Comparison:
    return compare(*load_sides("1", "2", url), options)


def seen(*log_ratios: float) -> Contrasts:
    """Return what two sweeps showed of some trials, with nothing left unknown of their samples."""
    count = len(log_ratios)
    return replace(Contrasts.none_of(count), estimate=np.array(log_ratios), deviation=np.zeros(count))


def reach(noise: Noise, error_rate: float) -> float:
    """Return the deviation from the truth that one of two such times exceeds with a chance of `error_rate`."""
    contrast = replace(seen(0.0), noise=np.array([noise]))
    return float(contrast.beside_samples(error_rate)[0]) / math.sqrt(2)


def test_what_is_assumed_depends_on_what_is_timed_and_on_how_long_it_takes() -> None:
    times = [
        (0, "cuda", "cold", False, 1, ONE_LAUNCH),
        (1, "cuda", "cold", False, 2, SEVERAL_LAUNCHES),
        (1, "cuda", "hot", False, 1, SEVERAL_LAUNCHES),
        (2, "opencl", "cold", False, 2, OPENCL),
        (3, "cuda", "total", False, 1, TRANSFERS),
        (4, "opencl", "total", True, 1, ON_HOST),
    ]
    names = ("trial", "backend", "measure", "on_host", "batch", "expected")
    rows = pd.DataFrame(times, columns=names)
    assert add_models(rows)["model"].tolist() == rows["expected"].tolist()
    assert NoiseModel("", 0.003, 40.0).deviations(10_000.0) == pytest.approx(0.005)
    assert ONE_LAUNCH.deviations(3_000.0) > 10 * ONE_LAUNCH.deviations(300_000.0)


@pytest.mark.parametrize(("factor", "said"), [(1.0, "0.3%"), (100.0, "30%"), (333.0, "100%"), (4000.0, "1200%")])
def test_a_figure_of_noise_is_written_without_a_power_of_ten(factor: float, said: str) -> None:
    assert NoiseModel("CPU", 0.003).text(factor) == f"{said} of a time (CPU)"


def test_the_noise_of_a_comparison_is_that_of_both_its_times() -> None:
    noise = SweepNoise("assumed", dict.fromkeys((ONE_LAUNCH, SEVERAL_LAUNCHES), AS_MODELLED))
    models = {"base_model": [ONE_LAUNCH], "new_model": [SEVERAL_LAUNCHES]}
    rows = {"device": ["a"], **models, "base_median_ns": [5_000.0], "new_median_ns": [10_000.0]}
    ((deviation, freedom, _),) = noise_between({"a": noise}, pd.DataFrame(rows)).tolist()
    sides = ONE_LAUNCH.deviations(5_000.0), SEVERAL_LAUNCHES.deviations(10_000.0)
    assert deviation == pytest.approx(math.sqrt(sum(side**2 for side in sides) / 2))
    assert freedom == math.inf


@pytest.mark.parametrize("device", [HOST, POCL])
def test_a_cpu_is_assumed_to_vary_more_than_a_gpu(store: Store, url: str, device: DeviceFacts) -> None:
    trials = [Made(device=GPU), Made("second", device=device)]
    fill(store, trials)
    fill(store, [replace(each, time=53.0, source="x") for each in trials], seed=2)
    found = run(url)
    assert {name: (*noise.scales,) for name, noise in found.noises.items()} == {
        GPU.name: (ONE_LAUNCH,),
        device.name: (ON_HOST,),
    }
    assert [row.verdict for row in each(found.rows)] == [Verdict.SLOWER, Verdict.UNDECIDED]
    assert found.noises[device.name].text == "5% of a time (CPU): assumed, not measured; --noise sets it"
    stated = run(url, Options(noise=0.001)).noises
    assert {noise.text for noise in stated.values()} == {"0.1% of a time, as given by --noise"}


def test_kinds_of_times_on_one_device_have_a_figure_each(store: Store, url: str) -> None:
    trials = [Made("one"), Made("several", batch=8), Made("opencl", device=GPU_BY_OPENCL)]
    fill(store, trials)
    fill(store, [replace(each, source="x") for each in trials], seed=2)
    found = run(url)
    (noise,) = found.noises.values()
    assert tuple(noise.scales) == (ONE_LAUNCH, SEVERAL_LAUNCHES, OPENCL)
    widths = {row.base_variant: row.high - row.low for row in each(found.rows)}
    assert widths["one"] < widths["several"] < widths["opencl"]
    assert noise.text == (
        "0.2% and 75 ns of a time (CUDA, one launch); 0.2% and 200 ns of a time (CUDA, several launches or a library); "
        "2% and 400 ns of a time (OpenCL on a GPU): assumed, not measured; --noise sets it"
    )


def test_a_stated_noise_is_a_plain_share_of_every_time(store: Store, url: str) -> None:
    trials = [Made("short", 3.0), Made("opencl", 300.0, device=GPU_BY_OPENCL)]
    fill(store, trials)
    fill(store, [replace(each, source="x") for each in trials], seed=2)
    found = run(url, Options(noise=0.01))
    assert noise_between(found.noises, found.rows)[:, 0] == pytest.approx([0.01, 0.01])
    none = run(url, Options(noise=0.0)).noises
    assert noise_between(none, found.rows)[0].tolist() == [0.0, math.inf, 0.0]


def test_few_unchanged_trials_show_a_noise_above_the_assumed_one(store: Store, url: str) -> None:
    shifts = {1: 1.04, 2: 0.97, 3: 0.98}
    fill(store, [Made(n=n) for n in (*shifts, 4)])
    changed = Made(n=4, time=52.5, source="x")
    fill(store, [*(Made(n=n, time=50.0 * shift) for n, shift in shifts.items()), changed], seed=2)
    found = run(url)
    noise = found.noises[GPU.name]
    seen_deviation = math.sqrt((0.04**2 + 0.03**2 + 0.02**2) / 3 / 2)
    assert noise.scales[ONE_LAUNCH].value == pytest.approx(seen_deviation / ONE_LAUNCH.deviations(50_000.0), rel=0.1)
    assert (noise.scales[ONE_LAUNCH].freedom, noise.scales[ONE_LAUNCH].least) == (3, 1.0)
    assert "3 trials in which nothing has changed, few, so by Student's t" in noise.text
    assert noise.farthest_ratio == pytest.approx(1.04, abs=0.003)
    assert "the ratio among them that is farthest from 1 is 1.0" in noise.text
    assert found.counts[Verdict.SLOWER] == found.counts[Verdict.FASTER] == 0


def test_few_count_by_students_t_and_never_below_what_is_assumed() -> None:
    scale = estimate_scale(seen(0.03, -0.04), [0.002, 0.002], 2)
    assert scale.deviation == pytest.approx(12.5)
    assert reach(scale, 0.01) == pytest.approx(12.5 * stats.t.isf(0.005, 2), rel=1e-3)
    quiet = estimate_scale(seen(0.0), [0.002], 1)
    assert (quiet.value, reach(quiet, 0.05)) == (1.0, pytest.approx(1.96, rel=1e-3))


def test_short_and_long_times_tell_of_one_factor() -> None:
    rng = np.random.default_rng(1)
    deviations = [0.002] * 100 + [0.02] * 100
    contrasts = seen(*(3.0 * math.sqrt(2) * deviation * float(rng.standard_normal()) for deviation in deviations))
    assert estimate_scale(contrasts, deviations, 200).value == pytest.approx(3.0, rel=0.25)


def test_a_tail_that_the_median_does_not_see_counts() -> None:
    rng = np.random.default_rng(2)
    ratios = [*(0.001 * rng.standard_normal(24)), *(0.03 * rng.standard_normal(8))]
    scale = estimate_scale(seen(*ratios), [0.001] * 32, 32)
    assert scale.value > 8
    assert estimate_scale(seen(*ratios[:24]), [0.001] * 24, 24).value < 1.5


def test_a_quiet_kind_of_times_says_nothing_of_another(store: Store, url: str) -> None:
    trials = [*(Made(n=number) for number in range(1, 11)), Made("opencl", device=GPU_BY_OPENCL)]
    fill(store, trials)
    fill(store, [replace(each, source="x") if each.device is GPU_BY_OPENCL else each for each in trials], seed=2)
    noise = run(url).noises[GPU.name]
    assert noise.trials == 10
    assert noise.scales[ONE_LAUNCH].value < 0.5
    assert noise.scales[OPENCL].value == 1.0


def test_two_measures_of_a_trial_are_one_degree_of_freedom(store: Store, url: str) -> None:
    both = Made(measures=(Measure.COLD, Measure.HOT))
    fill(store, [replace(both, n=n) for n in range(1, 6)])
    fill(store, [replace(both, n=n) for n in range(1, 6)], seed=2)
    noise = run(url).noises[GPU.name]
    assert noise.scales[ONE_LAUNCH].freedom == 5
    assert "5 trials" in noise.text


def test_many_unchanged_trials_are_taken_for_what_they_show(store: Store, url: str) -> None:
    trials = [Made(n=number, noise=0.001) for number in range(1, 31)]
    fill(store, trials)
    fill(store, [replace(each, time=each.time * (1.006 if each.n % 2 else 0.994)) for each in trials], seed=2)
    found = run(url)
    assert "estimated from 30 trials in which nothing has changed; the ratio" in found.noises[GPU.name].text
    assert 0.004 < noise_between(found.noises, found.rows)[0, 0] < 0.012
    assert found.counts[Verdict.SLOWER] == found.counts[Verdict.FASTER] == 0


def test_a_gpus_unchanged_trials_say_nothing_of_the_host(store: Store, url: str) -> None:
    trials = [*(Made(n=number) for number in range(1, 11)), Made("second", device=HOST)]
    fill(store, trials)
    fill(store, [replace(each, source="x") if each.device is HOST else each for each in trials], seed=2)
    noises = run(url).noises
    assert noises[GPU.name].scales[ONE_LAUNCH].value < 0.5  # of equal series
    assert noises[HOST.name].scales[ON_HOST].value == 1.0
