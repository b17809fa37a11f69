"""How much times vary from sweep to sweep: stated, estimated from what has not changed, or assumed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from cuprof.comparison.contrast import Contrast, Noise, contrast
from cuprof.comparison.matching import Match
from cuprof.records import Measure

ASSUMED_NOISE = 0.002
"""Relative standard deviation of a time from sweep to sweep that is taken on a GPU where nothing tells it."""
ASSUMED_HOST_NOISE = 0.05
"""The same on a CPU, whose other work is no part of the sweep; docs/comparing.md says what it was chosen from."""
MANY_CONTROLS = 8
"""Unchanged trials from which a robust estimate is made that is then taken for known."""
CAUTION = 1.5
"""That estimate, from k trials, is raised by this over √k, about its own standard error: too small a deviation would
call noise a difference, too large a one costs power alone."""
NORMAL_MAD = 1.4826
"""Median absolute value of normal numbers to their standard deviation."""

Pair = tuple[Match, Measure]


def find_noises(pairs: Iterable[Pair], stated: float | None) -> dict[str, Noise]:
    """Return device → noise of the times that the two sides took in different sweeps.

    Each device has its own: a GPU's times say nothing of how much the host's vary.

    Args:
        stated: taken for all, where it is not None.
    """
    by_device: dict[str, list[Pair]] = defaultdict(list)
    for match, measure in pairs:
        base, new = match.base.series[measure].together, match.new.series[measure].together
        if not base or base != new:
            by_device[match.device].append((match, measure))
    if stated is not None:
        return dict.fromkeys(by_device, Noise(stated, source="as given by --noise"))
    return {device: _find_noise(apart) for device, apart in by_device.items()}


def estimate_noise(contrasts: Sequence[Contrast], trials: int, assumed: float) -> Noise:
    """Return the noise of a log time from sweep to sweep, from trials in which nothing has changed.

    It is taken about 0, so a shift common to all counts as noise.

    From many, the root of the robust variance less what the samples within the sweeps explain (taken from their 68 %
    intervals). From few, the root mean square with nothing taken off: a further ratio of the same spread, over it, is
    distributed as Student's t with a degree of freedom a trial, so the error rate holds however few they are.

    Args:
        trials: that the contrasts are of; two measures of one trial vary together and are one degree of freedom.
        assumed: what few are not believed to be less than.
    """
    source = f"estimated from {trials} trial{'s' if trials > 1 else ''} in which nothing has changed"
    ratios = np.array([each.log_ratio for each in contrasts])
    if trials < MANY_CONTROLS:
        deviation = math.sqrt(float(np.mean(np.square(ratios))) / 2)
        return Noise(deviation, trials, assumed, f"{source}: few, so by Student's t, and no less than {assumed:.1%}")
    within = [(high - low) / 2 for low, high in (each.log_bounds(0.3173) for each in contrasts)]
    seen = (NORMAL_MAD * float(np.median(np.abs(ratios)))) ** 2
    deviation = math.sqrt(max(0.0, seen - float(np.median(np.square(within)))) / 2)
    return Noise(deviation * (1.0 + CAUTION / math.sqrt(trials)), source=source)


def _find_noise(apart: Sequence[Pair]) -> Noise:
    """Return the noise of one device's times."""
    on_host = any(match.base.on_host or match.new.on_host for match, _ in apart)
    assumed = ASSUMED_HOST_NOISE if on_host else ASSUMED_NOISE
    controls = [(match, measure) for match, measure in apart if match.is_unchanged]
    if not controls:
        return Noise(assumed, source=f"assumed for a {'CPU' if on_host else 'GPU'}, not measured; --noise sets it")
    contrasts = [contrast(match.base.series[measure], match.new.series[measure]) for match, measure in controls]
    return estimate_noise(contrasts, len({id(match) for match, _ in controls}), assumed)
