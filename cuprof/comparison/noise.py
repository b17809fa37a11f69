"""How much times vary from sweep to sweep: stated, assumed by what is timed, or estimated from what has not changed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cuprof.comparison.contrast import NO_NOISE, ONE_SIGMA, Contrast, Noise, are_together, contrast
from cuprof.comparison.entries import Entry
from cuprof.comparison.matching import Match
from cuprof.records import Measure


@dataclass(frozen=True)
class Model:
    """The standard deviation of a time from sweep to sweep: a share of the time and a constant, added by squares.

    Args:
        what: the times that it is of, for people.
        relative: share of the time.
        absolute_ns: the same for a time of any length.
    """

    what: str
    relative: float
    absolute_ns: float = 0.0

    def deviation(self, time_ns: float) -> float:
        """Return the relative standard deviation of a time."""
        return math.hypot(self.relative, self.absolute_ns / time_ns)

    def text(self, factor: float = 1.0) -> str:
        """Return the figures, times a factor, and what they are of."""
        relative = f"{100 * factor * self.relative:.2g}%" if self.relative or not self.absolute_ns else ""
        absolute = f"{factor * self.absolute_ns:.0f} ns" if self.absolute_ns else ""
        figures = " and ".join(filter(None, (relative, absolute)))
        return f"{figures} of a time" + (f" ({self.what})" if self.what else "")


ONE_LAUNCH = Model("CUDA, one launch", 0.002, 75.0)
SEVERAL_LAUNCHES = Model("CUDA, several launches or a library", 0.002, 200.0)
OPENCL = Model("OpenCL on a GPU", 0.02, 400.0)
TRANSFERS = Model("total, by the host's clock", 0.05)
HOST = Model("CPU", 0.05)
"""What is assumed where nothing tells it; docs/comparing.md says what the figures were chosen from."""

PREPARED = Model("CPU, cold, within one sweep", 0.0, 500.0)
"""Of one function prepared twice in a process: where its objects lie decides what a flush takes out of the caches."""

MANY_CONTROLS = 8
"""Unchanged trials from which a robust estimate is made that is then taken for known."""
CAUTION = 1.5
"""That estimate, from k trials, is raised by this over √k, about its own standard error: too small a deviation would
call noise a difference, too large a one costs power alone."""
NORMAL_MAD = 1.4826
"""Median absolute value of normal numbers to their standard deviation."""
TAIL, NORMAL_TAIL = 0.9, 1.6449
"""The share of normal numbers whose absolute value is below so many standard deviations: the median alone would not see
that a third of the trials vary far more than the rest."""

AS_MODELLED = Noise(1.0)

Pair = tuple[Match, Measure]


@dataclass(frozen=True)
class SweepNoise:
    """The noise of one device's times from sweep to sweep.

    Args:
        source: "stated", "assumed" or "estimated".
        models: of the kinds of times that are compared.
        scale: what the models' deviations are multiplied by, itself a `Noise` in multiples of them.
        controls: unchanged trials behind the scale, of each model.
        farthest_ratio: of the control whose ratio NEW / BASE is farthest from 1; 1 without controls.
    """

    source: str
    models: tuple[Model, ...]
    scale: Noise = AS_MODELLED
    controls: tuple[int, ...] = ()
    farthest_ratio: float = 1.0

    @property
    def trials(self) -> int:
        """Return the number of unchanged trials behind the estimate."""
        return sum(self.controls)

    def factor(self, model: Model) -> float:
        """Return the multiple of a model's deviation that is reckoned with."""
        return self._scale(model).value

    def of(self, match: Match, measure: Measure) -> Noise:
        """Return the noise of either time of a comparison; where the sides' differ, their root mean square."""
        models = [self._model(each, measure) for each in (match.base, match.new)]
        times = [each.series[measure].median_ns for each in (match.base, match.new)]
        squares = [model.deviation(time) ** 2 for model, time in zip(models, times, strict=True)]
        scale = max(map(self._scale, models), key=lambda each: each.value)
        return scale.times(math.sqrt(sum(squares) / 2))

    @property
    def text(self) -> str:
        """Return the figures and where they come from, in one line."""
        figures = "; ".join(model.text(self.factor(model)) for model in self.models)
        if self.source == "stated":
            return f"{figures}, as given by --noise"
        if self.source == "assumed":
            return f"{figures}: assumed, not measured; --noise sets it"
        few = ", few, so by Student's t and no less than would be assumed" if self.trials < MANY_CONTROLS else ""
        return (
            f"{figures}: estimated from {self.trials} trial{'s' if self.trials > 1 else ''} in which nothing has "
            f"changed{few}; the ratio among them that is farthest from 1 is {self.farthest_ratio:.4f}"
        )

    def _model(self, entry: Entry, measure: Measure) -> Model:
        return self.models[0] if self.source == "stated" else assumed_model(entry, measure)

    def _scale(self, model: Model) -> Noise:
        """Return the scale for one kind of times; below 1 only where enough trials of that kind have shown it."""
        own = self.controls[self.models.index(model)] if self.controls else MANY_CONTROLS
        return self.scale if own >= MANY_CONTROLS or self.scale.value >= 1.0 else AS_MODELLED


def find_noises(pairs: Iterable[Pair], stated: float | None) -> dict[str, SweepNoise]:
    """Return device → noise of the times that the two sides took in different sweeps.

    Each device has its own: a GPU's times say nothing of how much the host's vary.

    Args:
        stated: taken for all times, as a share of each, where it is not None.
    """
    by_device: dict[str, list[Pair]] = defaultdict(list)
    for match, measure in pairs:
        if not are_together(match.base.series[measure], match.new.series[measure]):
            by_device[match.device].append((match, measure))
    if stated is not None:
        return dict.fromkeys(by_device, SweepNoise("stated", (Model("", stated),)))
    return {device: _find_noise(apart) for device, apart in by_device.items()}


def noise_within(match: Match, measure: Measure) -> Noise:
    """Return the noise of either time of a comparison within one sweep."""
    if not (measure is Measure.COLD and match.base.on_host and match.new.on_host):
        return NO_NOISE
    times = [each.series[measure].median_ns for each in (match.base, match.new)]
    return Noise(math.sqrt(sum(PREPARED.deviation(time) ** 2 for time in times) / 2))


def assumed_model(entry: Entry, measure: Measure) -> Model:
    """Return what is assumed of one time."""
    if entry.on_host:
        return HOST
    if measure is Measure.TOTAL:
        return TRANSFERS
    if entry.backend == "opencl":
        return OPENCL
    return SEVERAL_LAUNCHES if entry.several_launches else ONE_LAUNCH


def estimate_scale(contrasts: Sequence[Contrast], deviations: Sequence[float], trials: int) -> Noise:
    """Return by how much times vary more than modelled, from trials in which nothing has changed.

    Each log ratio is divided by the deviation that its model gives it, so that short and long times tell of one figure.
    It is taken about 0, so a shift common to all counts as noise.

    From many, the root of a robust variance less what the samples within the sweeps explain (taken from their 68 %
    intervals); robust is the larger of what the median and what the 90 % quantile of the ratios' sizes give. From few,
    the root mean square with nothing taken off: a further ratio of the same spread, over it, is distributed as
    Student's t with a degree of freedom a trial, so the error rate holds however few they are.

    Args:
        deviations: of a time by its model, one a contrast; relative.
        trials: that the contrasts are of; two measures of one trial vary together and are one degree of freedom.
    """
    units = math.sqrt(2.0) * np.array(deviations)
    sizes = np.abs([each.log_ratio for each in contrasts]) / units
    if trials < MANY_CONTROLS:
        return Noise(math.sqrt(float(np.mean(np.square(sizes)))), trials, 1.0)
    within = np.array([(high - low) / 2 for low, high in (each.log_bounds(ONE_SIGMA) for each in contrasts)]) / units
    seen = max(NORMAL_MAD * float(np.median(sizes)), float(np.quantile(sizes, TAIL)) / NORMAL_TAIL)
    scale = math.sqrt(max(0.0, seen**2 - float(np.median(np.square(within)))))
    return Noise(scale * (1.0 + CAUTION / math.sqrt(trials)))


def _find_noise(apart: Sequence[Pair]) -> SweepNoise:
    """Return the noise of one device's times."""
    models = tuple(
        dict.fromkeys(assumed_model(each, measure) for match, measure in apart for each in (match.base, match.new))
    )
    unchanged = [(match, measure) for match, measure in apart if match.is_unchanged]
    assumed = SweepNoise("assumed", models)
    if not unchanged:
        return assumed
    contrasts = [contrast(match.base.series[measure], match.new.series[measure]) for match, measure in unchanged]
    deviations = [assumed.of(match, measure).value for match, measure in unchanged]
    first = {id(match): assumed_model(match.base, measure) for match, measure in reversed(unchanged)}
    counts = Counter(first.values())
    return SweepNoise(
        "estimated",
        models,
        estimate_scale(contrasts, deviations, len(first)),
        tuple(counts[model] for model in models),
        math.exp(max((each.log_ratio for each in contrasts), key=abs)),
    )
