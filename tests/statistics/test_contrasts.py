"""Contrasts of pairs of series: estimates, intervals, pairing, bridges."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cuprof.statistics.contrasts import Contrasts, Known, contrast, critical, learn
from cuprof.statistics.correlation import Pools
from cuprof.statistics.noise import Noise
from cuprof.statistics.samples import Samples

RNG = np.random.default_rng
ROUNDS = np.arange(60)
CASE = Path(__file__).parents[1] / "data" / "comparison" / "twice_as_fast.json"


def series(seed: int, median: float = 50_000.0, noise: float = 0.003, count: int = 60, rotation: str = "a") -> Samples:
    values = median * (1 + noise * RNG(seed).standard_normal(count))
    return Samples.of([values], [np.arange(count)], rotation=rotation)


def times(samples: Samples, factor: np.ndarray, rotation: str = "a") -> Samples:
    return replace(samples, values=samples.values * factor, rotation=np.array([rotation], dtype=object))


def ends(found: Contrasts, error_rate: float = 0.05) -> tuple[float, float]:
    low, high = found.interval(error_rate)
    return float(low[0]), float(high[0])


def of(*noises: Noise) -> np.ndarray:
    return np.array(noises, dtype=np.float64)


def test_a_factor_of_two_from_ten_samples_is_told() -> None:
    """The first method gave 0.3868 to 1.2039: ten samples left it one degree of freedom."""
    case = json.loads(CASE.read_text(encoding="utf-8"))["series"]
    base, new = (
        Samples.of([np.array(case[name]["durations_ns"])], [np.array(case[name]["rounds"])], rotation="a", tick_ns=32.0)
        for name in ("unrolled", "single_pass")
    )
    found = contrast(base, new)
    assert math.exp(found.estimate[0]) == pytest.approx(0.4858, abs=1e-4)
    low, high = map(math.exp, ends(found))
    assert 0.478 < low < 0.482
    assert 0.503 < high < 0.509


def test_pairs_cancel_a_drift_that_both_share() -> None:
    drift = np.linspace(1, 1.2, 60)
    base, new = times(series(1), drift), times(series(2, 51_000.0), drift)
    found = contrast(base, new)
    low, high = ends(found)
    assert found.paired.tolist() == [True]
    assert math.exp(low) < 1.02 < math.exp(high)
    assert high - low < 0.005
    apart = contrast(base, times(new, np.ones(60), "b"))
    assert apart.paired.tolist() == [False]
    assert ends(apart)[1] - ends(apart)[0] > 0.05


def test_pairs_meet_by_the_number_of_their_round() -> None:
    drift = np.linspace(1, 2, 60)
    base, new = times(series(1), drift), times(series(2), drift)
    keep = np.arange(60) % 3 != 0
    new = Samples.of([new.values[keep]], [ROUNDS[keep]], rotation="a")
    found = contrast(base, new)
    assert found.paired.tolist() == [True]
    assert math.exp(found.estimate[0]) == pytest.approx(1, abs=0.003)


def test_rounds_in_which_one_side_alone_took_part_do_not_pass_a_drift_for_a_difference() -> None:
    drift = 1 + 0.05 * np.arange(104) / 200
    wrong = 0
    for seed in range(100):
        base = times(series(2 * seed, noise=0.01, count=10), drift[:10])
        low, high = ends(contrast(base, times(series(2 * seed + 1, noise=0.01, count=104), drift)))
        wrong += not low <= 0 <= high
    assert wrong <= 10


def test_series_of_very_different_length_are_not_cut_to_the_shorter() -> None:
    found = contrast(series(1, count=20), series(2, noise=0.05, count=1300))
    assert found.paired.tolist() == [False]


def test_noise_widens_intervals() -> None:
    base, new = series(1), series(2)
    apart = times(new, np.ones(60), "b")
    for other, noise, reach in (
        (new, Noise(0.01), 1.96),
        (apart, Noise(0.01), 1.96),
        (apart, Noise(0.01, 3), 3.182),
        (apart, Noise(0.001, 3, 0.01), 1.96),
    ):
        low, high = ends(contrast(base, other, of(noise)))
        assert (high - low) / 2 == pytest.approx(reach * 0.01 * math.sqrt(2), rel=0.05)


def test_ticks_widen_the_interval() -> None:
    coarse = np.repeat([3616.0, 3648.0], 30)
    low, high = ends(contrast(*(Samples.of([coarse], [ROUNDS], rotation=name) for name in "bc")))
    assert high - low >= 2 * 0.125 * 2 * 32 / 3632


def test_summaries_stand_for_samples_with_their_own_error() -> None:
    base, new = (Samples.of([np.array([value])], standard_error=0.001) for value in (50_000.0, 51_000.0))
    both = contrast(base, new)
    low, high = ends(both)
    assert both.estimate[0] == pytest.approx(math.log(1.02))
    assert (high - low) / 2 == pytest.approx(1.96 * 0.001 * math.sqrt(2), rel=1e-3)
    measured = series(1, 51_000.0, rotation="")
    for mixed, ratio in ((contrast(base, measured), 1.02), (contrast(measured, base), 1 / 1.02)):
        assert mixed.estimate[0] == pytest.approx(math.log(ratio), abs=0.002)
        assert ends(mixed)[1] - ends(mixed)[0] < 0.02


def test_the_inverse_comparison_has_the_inverse_interval() -> None:
    base, new = series(1, rotation=""), series(2, 51_000.0, rotation="")
    low, high = ends(contrast(base, new), 0.01)
    back_low, back_high = ends(contrast(new, base), 0.01)
    assert (-back_high, -back_low) == pytest.approx((low, high), abs=1e-6)


def test_the_estimate_is_that_of_hodges_and_lehmann() -> None:
    base, new = 100 * np.exp(RNG(1).normal(0, 0.1, 31)), 100 * np.exp(RNG(2).normal(0.3, 0.2, 44))
    found = contrast(Samples.of([base]), Samples.of([new]))
    assert found.estimate[0] == pytest.approx(np.median(np.log(new)[:, None] - np.log(base)[None, :]), abs=1e-3)
    differences = np.log(new[:31]) - np.log(base)
    walsh = (differences[:, None] + differences[None, :])[np.triu_indices(31)] / 2
    pair = (Samples.of([each], [np.arange(31)], rotation="a") for each in (base, new[:31]))
    paired = replace(contrast(*pair))
    if paired.paired[0]:
        assert paired.estimate[0] == pytest.approx(np.median(walsh), abs=0.01)


def test_the_interval_of_many_pairs_is_wilcoxons() -> None:
    drift = np.exp(np.linspace(0, 1, 25))  # so that pairing is narrower
    values = np.exp(RNG(3).normal(0.1, 0.1, 25))
    base, new = (Samples.of([1000 * drift * each], [np.arange(25)], rotation="a") for each in (np.ones(25), values))
    independent = Pools(np.zeros((1, 2)), np.full((1, 2), 1e-6))  # for sure
    known = Known(independent, independent, independent)
    low, high = ends(contrast(base, new, known=known))
    assert stats.wilcoxon(np.log(values) - low).pvalue == pytest.approx(0.05, abs=0.03)
    assert stats.wilcoxon(np.log(values) - high).pvalue == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize(("base", "new"), [(1, 1), (1, 60), (2, 2), (2, 60), (60, 2)])
@pytest.mark.parametrize("rotation", ["", "a"])
def test_one_or_two_samples_give_no_interval(base: int, new: int, rotation: str) -> None:
    found = contrast(series(1, count=base, rotation=rotation), series(2, 99_000.0, count=new, rotation=rotation))
    assert ends(found) == (-math.inf, math.inf)


def test_few_samples_count_by_the_smaller_side_alone() -> None:
    few = contrast(series(1, count=3, rotation=""), series(2, count=60, rotation=""))
    assert few.dof[0] <= 2
    assert contrast(series(1, count=10, rotation=""), series(2, count=60, rotation="")).dof[0] > 7


@pytest.mark.parametrize("error_rate", [0.05, 1e-4, 1e-9])
def test_a_lower_error_rate_never_gives_a_narrower_interval(error_rate: float) -> None:
    for seed in range(20):
        found = contrast(series(seed, count=12, rotation=""), series(99 + seed, noise=0.01, count=9, rotation=""))
        (low, high), (wider_low, wider_high) = ends(found, error_rate), ends(found, error_rate / 2)
        assert wider_low <= low < found.estimate[0] < high <= wider_high


def test_few_equal_samples_are_no_certainty_and_many_are() -> None:
    def equal(value: float, count: int) -> Samples:
        return Samples.of([np.full(count, value)])

    spread = series(1, 2000.0, 0.01, rotation="")
    for base, new in ((equal(1e3, 5), equal(2e3, 5)), (spread, equal(1e3, 5)), (equal(1e3, 5), spread)):
        assert ends(contrast(base, new)) == (-math.inf, math.inf)
    low, high = ends(contrast(equal(1e3, 20), equal(2e3, 20)))
    assert low == pytest.approx(math.log(2))
    assert high == pytest.approx(math.log(2))
    assert ends(contrast(equal(1e3, 20), equal(2e3, 20)), 1e-7) == (-math.inf, math.inf)


def test_critical_values_are_students_and_normal() -> None:
    found = critical(0.05, np.array([1.0, 7.5, np.inf]))
    assert found == pytest.approx([stats.t.isf(0.025, 1), stats.t.isf(0.025, 7.5), stats.norm.isf(0.025)])


def test_a_bridge_frees_a_ratio_of_what_two_cards_differ_by_and_adds_its_error() -> None:
    rng, count = RNG(5), 300

    def drawn(factor: float) -> Samples:
        return Samples.of(list(factor * 50_000 * np.exp(rng.normal(0, 0.01, (count, 40)))))

    bridges, base, new = contrast(drawn(1.0), drawn(1.03)), drawn(1.0), drawn(1.03 * 1.02)
    plain = contrast(base, new)
    bridged = replace(plain, bridges=bridges)
    low, high = bridged.interval(0.05)
    assert ((low <= math.log(1.02)) & (math.log(1.02) <= high)).mean() >= 0.92
    assert (high - low > np.subtract(*plain.interval(0.05)[::-1])).all()
    assert bridged.log_ratio == pytest.approx(plain.log_ratio - bridges.log_ratio)


def draw(count: int) -> tuple[Samples, Samples, np.ndarray]:
    """Return pairs of all kinds: few samples and many, on ticks, drifting, constant, of shared rounds, of one value."""
    rng = RNG(11)

    def one(tick: float) -> Samples:
        size = int(rng.choice([1, 2, 3, 5, 9, 14, 20, 20, 33, 80, 300]))
        values = 5000 * np.exp(rng.choice([0, 0.003, 0.03]) * rng.standard_normal(size) + rng.choice([0, 0.05]))
        if rng.random() < 0.3:
            values *= np.exp(np.cumsum(0.002 * rng.standard_normal(size)))
        if tick or rng.random() < 0.2:
            values = np.round(values / 32) * 32
        first = int(rng.choice([0, 0, 2]))
        error = 0.01 if size == 1 and rng.random() < 0.5 else 0.0
        rounds, rotation = np.arange(first, first + size), str(rng.choice(["", "a"]))
        return Samples.of([values], [rounds], rotation=rotation, standard_error=error, tick_ns=tick)

    noises = [Noise(), Noise(0.002), Noise(0.05, 5)]
    ticks = [float(rng.choice([0, 32])) for _ in range(count)]
    base, new = zip(*[(one(tick), one(tick)) for tick in ticks], strict=True)
    return Samples.joined(base), Samples.joined(new), of(*(noises[place % 3] for place in range(count)))


def test_each_of_many_contrasts_is_what_it_is_by_itself() -> None:
    """Compiled and not, so that pages and `compare` agree."""
    base, new, noise = draw(300)
    known = learn(Samples.joined([base, new])).take(np.zeros(300, np.int64))
    together = contrast(base, new, noise, known=known)
    assert set(together.paired) == {True, False}
    for place in range(0, 300, 7):
        here = np.array([place])
        alone = contrast(base.take(here), new.take(here), noise[here], known=known.take(here))
        for rate in (0.05, 1e-6):
            assert ends(alone, rate) == ends(together.take(here), rate)
        assert alone.paired[0] == together.paired[place]
