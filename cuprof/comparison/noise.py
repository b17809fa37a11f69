"""The noise of stored times: stated, assumed by what is timed, or estimated from what has not changed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from cuprof.backends.registry import find_spec
from cuprof.backends.spec import NoiseSource
from cuprof.comparison.entries import Entry
from cuprof.comparison.matching import Match
from cuprof.comparison.stored import read_samples
from cuprof.core.records import Measure
from cuprof.statistics.contrast import Pair, contrast_all
from cuprof.statistics.noise import NO_NOISE, PREPARED, Noise, NoiseModel
from cuprof.statistics.sweep_noise import SweepNoise, estimate_scale

ONE_LAUNCH = NoiseModel("CUDA, one launch", 0.002, 75.0)
SEVERAL_LAUNCHES = NoiseModel("CUDA, several launches or a library", 0.002, 200.0)
OPENCL = NoiseModel("OpenCL on a GPU", 0.02, 400.0)
TRANSFERS = NoiseModel("total, by the host's clock", 0.05)
HOST = NoiseModel("CPU", 0.05)
"""What is assumed where nothing tells it; docs/comparing.md says what the figures were chosen from."""

Matched = tuple[Match, Measure]


def find_noises(pairs: Iterable[Matched], stated: float | None) -> dict[str, SweepNoise]:
    """Return device → noise of the times that the two sides took in different sweeps.

    Each device has its own: a GPU's times say nothing of how much the host's vary.

    Args:
        stated: taken for all times, as a share of each, where it is not None.
    """
    by_device: dict[str, list[Matched]] = defaultdict(list)
    for match, measure in pairs:
        if not match.is_together(measure):
            by_device[match.device].append((match, measure))
    if stated is not None:
        return dict.fromkeys(by_device, SweepNoise("stated", (NoiseModel("", stated),)))
    return {device: _find_noise(apart) for device, apart in by_device.items()}


def noise_between(noise: SweepNoise, match: Match, measure: Measure) -> Noise:
    """Return the noise of either time of a comparison between sweeps."""
    return noise.of(
        assumed_model(match.base, measure),
        assumed_model(match.new, measure),
        match.base.series[measure].median_ns,
        match.new.series[measure].median_ns,
    )


def noise_within(match: Match, measure: Measure) -> Noise:
    """Return the noise of either time of a comparison within one sweep."""
    if not (measure is Measure.COLD and match.base.on_host and match.new.on_host):
        return NO_NOISE
    times = [each.series[measure].median_ns for each in (match.base, match.new)]
    return Noise(math.sqrt(sum(PREPARED.deviation(time) ** 2 for time in times) / 2))


def assumed_model(entry: Entry, measure: Measure) -> NoiseModel:
    """Return what is assumed of one time."""
    if entry.on_host:
        return HOST
    if measure is Measure.TOTAL:
        return TRANSFERS
    spec = find_spec(entry.backend)
    if spec is not None and spec.noise is NoiseSource.EVENTS:
        return OPENCL
    return SEVERAL_LAUNCHES if entry.several_launches else ONE_LAUNCH


def _find_noise(apart: Sequence[Matched]) -> SweepNoise:
    """Return the noise of one device's times."""
    models = tuple(
        dict.fromkeys(assumed_model(each, measure) for match, measure in apart for each in (match.base, match.new))
    )
    unchanged = [(match, measure) for match, measure in apart if match.is_unchanged]
    assumed = SweepNoise("assumed", models)
    if not unchanged:
        return assumed
    sides = [Pair(match.base.series[measure], match.new.series[measure]) for match, measure in unchanged]
    read_samples(each for pair in sides for each in (pair.base, pair.new))
    contrasts = contrast_all(sides)
    deviations = [noise_between(assumed, match, measure).value for match, measure in unchanged]
    first = {id(match): assumed_model(match.base, measure) for match, measure in reversed(unchanged)}
    counts = Counter(first.values())
    return SweepNoise(
        "estimated",
        models,
        estimate_scale(contrasts, deviations, len(first)),
        tuple(counts[model] for model in models),
        math.exp(max((each.log_ratio for each in contrasts), key=abs)),
    )
