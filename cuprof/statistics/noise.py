"""How much times vary beside what their samples show: stated, assumed, or estimated from what has not changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cuprof.core.text import count
from cuprof.statistics import Floats
from cuprof.statistics.contrasts import ONE_SIGMA, Contrasts


class Noise(NamedTuple):
    """How much a time varies, beside what its samples show: from sweep to sweep, or from one preparation to another.

    Args:
        deviation: relative standard deviation of a time.
        freedom: degrees of freedom behind it; infinite where it is taken for known.
        least: a deviation taken for known, which holds where the other one reaches less far.
    """

    deviation: float = 0.0
    freedom: float = math.inf
    least: float = 0.0

    @property
    def value(self) -> float:
        """Return the relative standard deviation to use."""
        return max(self.deviation, self.least)


NO_NOISE = Noise()


@dataclass(frozen=True)
class NoiseModel:
    """The standard deviation of a time from sweep to sweep: a share of the time and a constant, added by squares.

    Args:
        what: the times that it is of, for people.
    """

    what: str
    relative: float
    absolute_ns: float = 0.0

    def deviations(self, times_ns: Floats | float) -> Floats:
        """Return the relative standard deviations of times."""
        return np.hypot(self.relative, self.absolute_ns / times_ns)

    def text(self, factor: float = 1.0) -> str:
        """Return the figures, times a factor, and what they are of."""
        percent = 100 * factor * self.relative
        relative = f"{percent:{'.2g' if percent < 99.5 else '.0f'}}%" if percent or not self.absolute_ns else ""
        absolute = f"{factor * self.absolute_ns:.0f} ns" if self.absolute_ns else ""
        figures = " and ".join(filter(None, (relative, absolute)))
        return f"{figures} of a time" + (f" ({self.what})" if self.what else "")


PREPARED = NoiseModel("CPU, cold, within one sweep", 0.0, 500.0)
"""Of one function prepared twice in a process: where its objects lie decides what a flush takes out of the caches."""
MANY_CONTROLS = 8
"""Unchanged trials from which a robust estimate is made that is then taken for known."""
CAUTION = 1.5
"""That estimate, from k trials, is raised by this over √k, about its own standard error: too small a deviation would
call noise a difference, too large a one costs power alone."""
NORMAL_MAD = 1.4826
"""Median absolute value of normal numbers to their standard deviation."""
TAIL, NORMAL_TAIL = 0.9, 1.6449
"""The share of normal numbers with an absolute value below this many standard deviations: the median alone would not
show that a third of the trials vary far more than the rest."""
AS_MODELLED = Noise(1.0)


@dataclass(frozen=True)
class SweepNoise:
    """The noise of one device's times from sweep to sweep.

    Args:
        source: "stated", "assumed" or "estimated".
        scales: model of the times that are compared → what its deviations are multiplied by, in multiples of them.
        trials: unchanged trials behind an estimate.
        farthest_ratio: of the one whose ratio NEW / BASE is farthest from 1; 1 without any.
    """

    source: str
    scales: Mapping[NoiseModel, Noise]
    trials: int = 0
    farthest_ratio: float = 1.0

    def of(self, base: NoiseModel, new: NoiseModel, base_ns: Floats, new_ns: Floats) -> Floats:
        """Return the noise of either of two times, of many pairs: (n, 3), the fields of `Noise`."""
        if self.source == "stated":
            base = new = next(iter(self.scales))
        mean_square = (base.deviations(base_ns) ** 2 + new.deviations(new_ns) ** 2) / 2
        scale = max(self.scales[base], self.scales[new], key=lambda each: each.value)
        factor = np.sqrt(mean_square)
        return np.column_stack((factor * scale.deviation, np.full(factor.size, scale.freedom), factor * scale.least))

    @property
    def text(self) -> str:
        """Return the figures and where they come from, in one line."""
        figures = "; ".join(model.text(scale.value) for model, scale in self.scales.items())
        if self.source == "stated":
            return f"{figures}, as given by --noise"
        if self.source == "assumed":
            return f"{figures}: assumed, not measured; --noise sets it"
        few = ", few, so by Student's t and no less than would be assumed" if self.trials < MANY_CONTROLS else ""
        return (
            f"{figures}: estimated from {count(self.trials, 'trial')} in which nothing has "
            f"changed{few}; the ratio among them that is farthest from 1 is {self.farthest_ratio:.4f}"
        )


def estimate_scale(contrasts: Contrasts, deviations: Sequence[float] | Floats, trials: int) -> Noise:
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
    units = math.sqrt(2.0) * np.asarray(deviations)
    sizes = np.abs(contrasts.log_ratio) / units
    if trials < MANY_CONTROLS:
        return Noise(math.sqrt(float(np.mean(np.square(sizes)))), trials, 1.0)
    low, high = contrasts.interval(ONE_SIGMA)
    within = (high - low) / 2 / units
    seen = max(NORMAL_MAD * float(np.median(sizes)), float(np.quantile(sizes, TAIL)) / NORMAL_TAIL)
    scale = math.sqrt(max(0.0, seen**2 - float(np.median(np.square(within)))))
    return Noise(scale * (1.0 + CAUTION / math.sqrt(trials)))
