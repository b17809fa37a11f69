"""Simulate comparisons of known truth and count what `cuprof compare` says of them.

Each series is drawn, then cut where the sampler would have stopped: stopping on a lucky interval changes error rates,
too. Everything is seeded, so the same arguments print the same table.

    python -m benchmarks.comparison_error_rates            # the figures of docs/evidence/comparing.md, some minutes
    python -m benchmarks.comparison_error_rates --count 50
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuprof.config.model import MeasureConfig
from cuprof.statistics.contrasts import Contrasts, Known, contrast, learn
from cuprof.statistics.median import locate_median
from cuprof.statistics.noise import Noise, estimate_scale
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Rule, Verdict, judge
from cuprof.worker.stopping import GROWTH

TICK_NS = 32.0
STOPPING = MeasureConfig()
SLOWDOWN = 1.015
A_SWEEP = 20
"""Pairs of one simulated sweep, whose series say together how its samples are correlated."""
ASSUMED = 0.002
"""Relative standard deviation of a time from sweep to sweep that the simulated comparisons assume."""

Draw = Callable[[np.random.Generator, int], np.ndarray]
"""(generator, count) → durations relative to the true median, in order."""


@dataclass(frozen=True)
class Scenario:
    """One kind of data.

    Args:
        scale_ns: true median of BASE.
        together: both are sampled in the same rounds.
        drift: the same for both in one round: linear over the first 200 rounds, relative.
        between: relative standard deviation of a whole series, drawn once a sweep.
        most: samples at most; fewer than the sampler takes, which keeps the simulation short.
    """

    name: str
    noise: Draw
    scale_ns: float = 50_000.0
    together: bool = True
    drift: float = 0.0
    between: float = 0.0
    most: int = 2000


def gaussian(deviation: float) -> Draw:
    """Return normal noise."""
    return lambda rng, count: 1.0 + deviation * rng.standard_normal(count)


def student(deviation: float) -> Draw:
    """Return Student's t noise with two degrees of freedom: its variance is infinite."""
    return lambda rng, count: np.maximum(1.0 + deviation * rng.standard_t(2, count), 0.2)


def spikes(deviation: float) -> Draw:
    """Return normal noise with one sample in 20 up to 30 % longer."""

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        tall = np.where(rng.random(count) < 0.05, 1.0 + 0.3 * rng.random(count), 1.0)
        return np.asarray((1.0 + deviation * rng.standard_normal(count)) * tall)

    return draw


def correlated(deviation: float, correlation: float) -> Draw:
    """Return first-order autoregressive noise."""

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        steps, before = rng.standard_normal(count), rng.standard_normal()
        fading = correlation ** np.arange(count + 1.0)
        memory = fading[fading > 1e-12]
        values = math.sqrt(1.0 - correlation**2) * np.convolve(steps, memory)[:count] + fading[1:] * before
        return np.asarray(1.0 + deviation * values)

    return draw


def step(deviation: float, size: float) -> Draw:
    """Return normal noise with one step up or down at a random place."""

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        after = np.arange(count) >= rng.integers(1, count)
        return np.asarray(1.0 + deviation * rng.standard_normal(count) + size * rng.choice([-1, 1]) * after)

    return draw


def two_modes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return noise that lies at one of two times 3 % apart, each half of the samples."""
    return np.asarray((1.0 + 0.002 * rng.standard_normal(count)) * np.where(rng.random(count) < 0.5, 1.0, 1.03))


SCENARIOS = (
    Scenario("normal 0.3 %, paired", gaussian(0.003)),
    Scenario("normal 1 %, paired", gaussian(0.01)),
    Scenario("normal 1 %, unpaired", gaussian(0.01), together=False),
    Scenario("normal 2 %, paired", gaussian(0.02)),
    Scenario("heavy tails (t, 2 freedoms), paired", student(0.01)),
    Scenario("heavy tails, unpaired", student(0.01), together=False),
    Scenario("spikes of 30 %, paired", spikes(0.01)),
    Scenario("common drift of 5 %, paired", gaussian(0.01), drift=0.05),
    Scenario("autocorrelation 0.3, paired", correlated(0.008, 0.3)),
    Scenario("autocorrelation 0.3, unpaired", correlated(0.008, 0.3), together=False),
    Scenario("autocorrelation 0.6, paired", correlated(0.01, 0.6)),
    Scenario("two modes 3 % apart, paired", two_modes),
    Scenario("ticks of 32 ns in 3.6 µs, paired", gaussian(0.01), scale_ns=3_613.0),
    Scenario("ticks of 32 ns in 3.6 µs, little noise", gaussian(0.001), scale_ns=3_613.0),
    Scenario("autocorrelation 0.6, 20 samples, unpaired", correlated(0.01, 0.6), together=False, most=20),
    Scenario("autocorrelation 0.9, 20 samples, unpaired", correlated(0.01, 0.9), together=False, most=20),
    Scenario("one step of 0.3 % in 20 samples, unpaired", step(0.0005, 0.003), together=False, most=20),
    Scenario("5 samples, unpaired", gaussian(0.005), together=False, most=5),
    Scenario("3 samples, unpaired", gaussian(0.005), together=False, most=3),
    Scenario("5 samples of 3 %, paired", gaussian(0.03), most=5),
    Scenario("7 samples of 3 %, paired", gaussian(0.03), most=7),
    Scenario("two sweeps that differ by 0.2 %", gaussian(0.005), together=False, between=0.002),
)


FEW = ((5, 5), (10, 10), (20, 20), (100, 100), (10, 104))
"""Samples of BASE and of NEW."""
RATIOS = (1.02, 1.1, 1.3, 2.0, 3.0)
"""True ratios of unequal pairs of few samples."""
OF_FEW: dict[str, tuple[Draw, float]] = {
    "independent": (gaussian(0.01), 0.0),
    "autocorrelation 0.3": (correlated(0.01, 0.3), 0.0),
    "autocorrelation 0.6": (correlated(0.01, 0.6), 0.0),
    "autocorrelation 0.8": (correlated(0.01, 0.8), 0.0),
    "common drift of 5 %": (gaussian(0.01), 0.05),
    "two modes 3 % apart": (two_modes, 0.0),
    "spikes of 30 %": (spikes(0.01), 0.0),
    "heavy tails (t, 2 freedoms)": (student(0.01), 0.0),
}
"""Noise and drift of both sides in one round."""
DIFFERENT = (Verdict.SLOWER, Verdict.FASTER)


def draw(rng: np.random.Generator, scenario: Scenario, ratio: float, count: int) -> tuple[Samples, Samples]:
    """Return the series of some comparisons of known ratio."""
    pairs = [(_draw(rng, scenario, 1.0), _draw(rng, scenario, ratio)) for _ in range(count)]
    rotation = "one" if scenario.together else ""
    base, new = (
        Samples.of(list(series), [np.arange(each.size) for each in series], rotation=rotation)
        for series in zip(*pairs, strict=True)
    )
    return base, new


def simulate(scenario: Scenario, ratio: float, count: int, seed: int = 1, noise: float | None = None) -> Contrasts:
    """Return `count` independent contrasts of pairs whose true ratio is `ratio`, `A_SWEEP` of them from one sweep."""
    rng = np.random.default_rng(seed)
    between = (ASSUMED if scenario.between else 0.0) if noise is None else noise
    parts = []
    for start in range(0, count, A_SWEEP):
        pairs = min(A_SWEEP, count - start)
        base, new = draw(rng, scenario, ratio, pairs)
        parts.append(contrast(base, new, np.tile(Noise(between), (pairs, 1)), known=_known(base, new)))
    return Contrasts.joined(parts)


def _known(base: Samples, new: Samples) -> Known:
    """Return what the sweep says of correlation: BASE and NEW of each pair were timed one after the other."""
    count = len(base)
    turns = np.arange(2 * count).reshape(2, count).T.ravel()
    return learn(Samples.joined([base, new]).take(turns)).take(np.zeros(count, np.int64))


def simulate_few(
    noise: Draw, counts: tuple[int, int], ratio: float, count: int, seed: int = 1, drift: float = 0.0
) -> Contrasts:
    """Return `count` contrasts of pairs sampled in the same rounds, with these numbers of samples of BASE and NEW."""
    rng, parts = np.random.default_rng(seed), []
    for _ in range(0, count, A_SWEEP):
        sides = []
        for size, factor in zip(counts, (1.0, ratio), strict=True):
            shape = 1.0 + drift * np.minimum(np.arange(size) / 200.0, 1.0)
            series = [50_000.0 * factor * noise(rng, size) * shape for _ in range(A_SWEEP)]
            ticking = [TICK_NS * np.floor(each / TICK_NS + rng.random(size)) for each in series]
            sides.append(Samples.of(ticking, [np.arange(size)] * A_SWEEP, rotation="one", tick_ns=TICK_NS))
        parts.append(contrast(*sides, known=_known(*sides)))
    return Contrasts.joined(parts)


def print_few(count: int, seed: int) -> None:
    """Print the table of few samples: how often equal times are called different, and each of `RATIOS` is found."""
    print("\n| data | " + " | ".join(f"{base} against {new}" for base, new in FEW) + " |")
    print("|---|" + "---:|" * len(FEW))
    for name, (noise, drift) in OF_FEW.items():
        print(
            f"| {name} | " + " | ".join(_few_cell(noise, each, drift, count, seed) for each in FEW) + " |", flush=True
        )


def _few_cell(noise: Draw, counts: tuple[int, int], drift: float, count: int, seed: int) -> str:
    """Return the rates at one kind of data and these numbers of samples; those of all ratios together miss."""
    equal = simulate_few(noise, counts, 1.0, count, seed, drift)
    parts = [(equal, 1.0)]
    parts += [
        (simulate_few(noise, counts, ratio, count // 3, seed + place, drift), ratio)
        for place, ratio in enumerate(RATIOS, 1)
    ]
    wrong = called(verdicts(equal), *DIFFERENT)
    missed = sum(misses(found, ratio) * len(found) for found, ratio in parts) / sum(len(found) for found, _ in parts)
    slower = "/".join(f"{called(verdicts(found), Verdict.SLOWER):.0%}" for found, ratio in parts if 1 < ratio < 1.3)
    left = max(called(verdicts(found), Verdict.UNDECIDED) for found, ratio in parts if ratio >= 1.3)
    return f"{wrong:.1%}; {missed:.1%}; {slower}; {left:.1%}"


def misses(contrasts: Contrasts, ratio: float, error_rate: float = 0.05) -> float:
    """Return the share of intervals that do not hold the true ratio."""
    low, high = contrasts.interval(error_rate)
    return float(np.mean((low > math.log(ratio)) | (high < math.log(ratio))))


def verdicts(contrasts: Contrasts, together: int = 1, rule: Rule | None = None) -> list[list[str]]:
    """Return the verdicts of contrasts that are judged together in groups of this size."""
    rule = rule or Rule()
    groups = [np.arange(start, start + together) for start in range(0, len(contrasts) - together + 1, together)]
    return [judge(contrasts.take(group), rule)["verdict"].tolist() for group in groups]


def called(groups: Sequence[Sequence[str]], *wanted: Verdict) -> float:
    """Return the share of verdicts that are among the wanted ones."""
    every = [verdict for group in groups for verdict in group]
    return sum(verdict in wanted for verdict in every) / len(every)


def any_called(groups: Sequence[Sequence[str]], *wanted: Verdict) -> float:
    """Return the share of groups in which at least one verdict is among the wanted ones."""
    return sum(any(verdict in wanted for verdict in group) for group in groups) / len(groups)


def estimated_noise_errors(between: float, controls: int, count: int, seed: int = 1, others: int = 0) -> float:
    """Return how often any trial is called different, with the noise estimated from the controls.

    Args:
        others: trials beside the controls, from which nothing is estimated.
    """
    rng, wrong = np.random.default_rng(seed), 0
    scenario = Scenario("", gaussian(0.005), together=False, between=between)
    for _ in range(count):
        base, new = draw(rng, scenario, 1.0, controls + others)
        contrasts = contrast(base, new)
        scale = estimate_scale(contrasts.take(np.arange(controls)), [ASSUMED] * controls, controls)
        noise = Noise(scale.deviation * ASSUMED, scale.freedom, scale.least * ASSUMED)
        found = judge(replace(contrasts, noise=np.tile(noise, (controls + others, 1))), Rule())["verdict"]
        wrong += any(verdict in (Verdict.SLOWER, Verdict.FASTER) for verdict in found)
    return wrong / count


def _draw(rng: np.random.Generator, scenario: Scenario, ratio: float) -> np.ndarray:
    count = scenario.most
    shape = scenario.noise(rng, count) * (1.0 + scenario.drift * np.minimum(np.arange(count) / 200.0, 1.0))
    shift = math.exp(scenario.between * rng.standard_normal()) if scenario.between else 1.0
    # Two readings of a clock that ticks, at a random phase.
    ticks = np.floor(scenario.scale_ns * ratio * shift * shape / TICK_NS + rng.random(count))
    return _stopped(ticks * TICK_NS)


def _stopped(durations: np.ndarray) -> np.ndarray:
    """Return the samples that the sampler would have taken."""
    count = min(STOPPING.min_samples, durations.size)
    while count < durations.size:
        ordered = np.sort(durations[:count])
        _, low, high = locate_median(ordered, STOPPING.confidence)
        median = float(np.median(ordered))
        if max(high - median, median - low) <= STOPPING.target * median:
            break
        count = min(durations.size, max(count + 1, math.ceil(count * GROWTH)))
    return durations[:count]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="comparisons a row (default: 2000)")
    parser.add_argument("--seed", type=int, default=101, help="of the random numbers (default: 101)")
    arguments = parser.parse_args()
    count, seed = arguments.count, arguments.seed
    print("| data | interval misses | A/A different | any of 20 | A/A same | A/B slower | of 100 |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    different = Verdict.SLOWER, Verdict.FASTER
    for scenario in SCENARIOS:
        equal = simulate(scenario, 1.0, count, seed)
        slower = simulate(scenario, SLOWDOWN, count, seed + 1)
        single = verdicts(equal)
        columns = (
            misses(equal, 1.0),
            called(single, *different),
            any_called(verdicts(equal, 20), *different) if count >= 20 else math.nan,
            called(single, Verdict.SAME),
            called(verdicts(slower), Verdict.SLOWER),
            called(verdicts(slower, 100), Verdict.SLOWER) if count >= 100 else math.nan,
        )
        print(f"| {scenario.name} | " + " | ".join(f"{value:.1%}" for value in columns) + " |", flush=True)
    for between in (0.001, 0.002, 0.004):
        for controls in (8, 20, 50):
            wrong = estimated_noise_errors(between, controls, max(10, count // controls), seed)
            print(f"noise of {between:.1%} estimated from {controls} unchanged trials: any different {wrong:.1%}")
    for between in (0.002, 0.01, 0.03):
        for controls in (1, 2, 4, 7):
            wrong = estimated_noise_errors(between, controls, max(10, count // 5), seed, others=4)
            print(f"noise of {between:.1%}, {controls} unchanged trials beside 4 others: any different {wrong:.1%}")

    print_few(count, seed)


if __name__ == "__main__":
    main()
