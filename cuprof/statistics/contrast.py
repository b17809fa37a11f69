"""How many times as long one trial takes as another, with an interval at any level; paired by round where possible.

Everything is done on logarithms, so that a ratio and its inverse are treated alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cuprof.statistics.critical import critical, criticals
from cuprof.statistics.noise import NO_NOISE, Noise
from cuprof.statistics.series import Series, are_together
from cuprof.statistics.shift import Shift, Shifts, shifts_between, shifts_of_pairs
from cuprof.statistics.sums import Sums, find_quantiles, ranks_of
from cuprof.statistics.ticks import spread_all

LEAST_SHARED = 0.25
"""The shared rounds alone count when they are at least this part of the longer series. A trial that was known after 20
rounds says nothing about the other 1300 of a noisy one, and to leave those out would throw most of the samples away."""
CLEARLY_NARROWER = 0.95
"""Two trials of the same rounds are paired unless the interval without pairs is narrower by this factor: pairs cancel a
drift that both share, but without one they only add the outliers of both."""
ONE_SIGMA = 0.3173
"""Error rate of an interval of one standard deviation to either side."""
LEAST_PAIRS = 5
NEARLY = 1.0 + 1e-9
"""For a rule of thumb that must not be wrong by a rounding."""
TICK_SHARE = 0.125
"""What spreading ties over the timer's tick leaves unknown, as a share of the tick: the median of a duration whose
readings fall on two ticks is off by at most 0.09 of one, however they fall."""

BASE_SEED, NEW_SEED = 20231, 20232
"""Fixed, so that the same samples always give the same interval."""


class Contrast(NamedTuple):
    """How many times as long NEW takes as BASE.

    Args:
        paired: from the ratios within rounds; else from the ratios of every sample of NEW to every sample of BASE.
        shift: of the logarithms.
        known_error: standard error of the log ratio of series that are known by a summary.
        resolution: what the timer's ticks leave unknown of the log ratio.
        noise: of each side's time.
        bridge: how many times as long a reference took beside NEW as beside BASE, where the two were measured apart and
            the reference beside each; the ratio is freed of it, at the cost of its error.
    """

    paired: bool
    shift: Shift
    known_error: float = 0.0
    resolution: float = 0.0
    noise: Noise = NO_NOISE
    bridge: Contrast | None = None

    @property
    def ratio(self) -> float:
        """Return the ratio NEW / BASE."""
        return math.exp(self.log_ratio)

    @property
    def log_ratio(self) -> float:
        """Return the natural logarithm of the ratio NEW / BASE."""
        return self.shift.estimate - (self.bridge.log_ratio if self.bridge else 0.0)

    def log_bounds(self, error_rate: float) -> tuple[float, float]:
        """Return the interval of the log ratio that misses the truth with a chance of `error_rate`."""
        low, high = Contrasts([self]).log_bounds(error_rate)
        return float(low[0]), float(high[0])


class Contrasts:
    """Many contrasts, whose intervals are found together."""

    def __init__(self, contrasts: Sequence[Contrast]) -> None:
        self._shifts = Shifts([each.shift for each in contrasts])
        self.log_ratios = np.array([each.log_ratio for each in contrasts])
        self.paired = [each.paired for each in contrasts]
        self._known_error = np.array([each.known_error for each in contrasts])
        self._resolution = np.array([each.resolution for each in contrasts])
        noises = np.array([each.noise for each in contrasts]).reshape(-1, 3)
        self._deviation, self._freedom, self._least = noises.T
        bridges = {id(each.bridge): each.bridge for each in contrasts if each.bridge}  # one of very many
        self._bridges = Contrasts(list(bridges.values())) if bridges else None
        numbers = dict(zip(bridges, range(len(bridges)), strict=True))
        self._bridge = np.array([numbers.get(id(each.bridge), -1) for each in contrasts], dtype=np.intp)

    def log_bounds(self, error_rate: float, places: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the intervals of the contrasts at some places, else of all; see `Contrast.log_bounds`.

        The distances of independent sources of error from the estimate add up by squares, each side by itself (MOVER:
        Zou & Donner, Statistics in Medicine 27, 2008).
        """
        places = np.arange(self.log_ratios.size) if places is None else places
        low, high = self._shifts.bounds(error_rate, places)
        estimates, log_ratios = self._shifts.estimates[places], self.log_ratios[places]
        down, up = estimates - low, high - estimates
        bridged = np.flatnonzero(self._bridge[places] >= 0)
        if self._bridges is not None and bridged.size:
            of_bridge = self._bridge[places[bridged]]
            low, high = self._bridges.log_bounds(error_rate)
            middle = self._bridges.log_ratios
            down[bridged] = _hypot(down[bridged], (high - middle)[of_bridge])
            up[bridged] = _hypot(up[bridged], (middle - low)[of_bridge])
        known, resolution = self._known(error_rate, places), self._resolution[places]
        return log_ratios - _hypot(down, known) - resolution, log_ratios + _hypot(up, known) + resolution

    def find_differing(self, error_rate: float, places: np.ndarray) -> np.ndarray:
        """Return those places at which the interval excludes equal times."""
        # It does not where it is too wide even without the samples.
        least = self._known(error_rate, places) + self._resolution[places]
        places = places[np.abs(self.log_ratios[places]) * NEARLY > least]
        low, high = self.log_bounds(error_rate, places)
        found: np.ndarray = places[~((low <= 0) & (high >= 0))]
        return found

    def _known(self, error_rate: float, places: np.ndarray) -> np.ndarray:
        """Return how far the intervals reach for what is known without samples."""
        normal = critical(error_rate, math.inf)
        reach = criticals(error_rate, self._freedom[places]) * self._deviation[places]
        reach = np.maximum(reach, normal * self._least[places])
        return _hypot(normal * self._known_error[places], math.sqrt(2.0) * reach)


def _hypot(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return what `math.hypot` does, which differs from NumPy's in the last digit."""
    return np.array(list(map(math.hypot, first.tolist(), second.tolist())))


class Pair(NamedTuple):
    """Two series to be contrasted.

    Args:
        noise: of either time, beside what its samples show.
        bridge: see `Contrast`; not heeded where the series were taken together.
    """

    base: Series
    new: Series
    noise: Noise = NO_NOISE
    bridge: Contrast | None = None


def contrast(base: Series, new: Series, noise: Noise = NO_NOISE, bridge: Contrast | None = None) -> Contrast:
    """Return the contrast of two series; see `Pair`."""
    return contrast_all([Pair(base, new, noise, bridge)])[0]


def contrast_all(pairs: Sequence[Pair]) -> list[Contrast]:
    """Return the contrasts of many pairs of series, each as it is by itself and in a fraction of the time."""
    bases, news = (
        _logarithms([getattr(pair, side) for pair in pairs], seed)
        for side, seed in (("base", BASE_SEED), ("new", NEW_SEED))
    )
    shared = [_find_shared(pair) for pair in pairs]
    between, differences = [], []
    for pair, (base, _), (new, _), rounds in zip(pairs, bases, news, shared, strict=True):
        if rounds is not None:
            base, new = base[rounds[0]], new[rounds[1]]
            differences.append(new - base)
        elif pair.base.relative_error or pair.new.relative_error:
            differences.append(new - base)  # one of them is a single value
            continue
        between.append((base, new))
    apart, paired = iter(shifts_between(between)), iter(shifts_of_pairs(differences))
    found: list[tuple[Contrast, ...]] = []
    for pair, (base, base_tick), (new, new_tick), rounds in zip(pairs, bases, news, shared, strict=True):
        errors = pair.base.relative_error, pair.new.relative_error
        resolution = TICK_SHARE * (base_tick / pair.base.median_ns + new_tick / pair.new.median_ns)
        if rounds is not None:
            found.append(
                tuple(
                    Contrast(is_paired, next(shifts), 0.0, resolution, pair.noise)
                    for is_paired, shifts in ((True, paired), (False, apart))
                )
            )
            continue
        if not any(errors):
            shift = next(apart)
        else:
            shift = next(paired)
            if all(errors):  # two values, whose errors are known and not from samples
                sums = Sums(new, -base)
                shift = Shift(sums, float(find_quantiles([sums], ranks_of(0.5, np.ones(1)))[0]), 0.0, math.inf)
        found.append((Contrast(False, shift, math.hypot(*errors), resolution, pair.noise, pair.bridge),))
    return _narrowest(found)


def _find_shared(pair: Pair) -> tuple[np.ndarray, np.ndarray] | None:
    """Return where the samples of shared rounds lie in both series; None where they are not compared by rounds."""
    base, new = pair.base, pair.new
    if not are_together(base, new):
        return None
    if base.rounds.size == new.rounds.size and (base.rounds == new.rounds).all() and (np.diff(base.rounds) > 0).all():
        ours = theirs = np.arange(base.rounds.size)  # most often, and found in a tenth of the time
    else:
        _, ours, theirs = np.intersect1d(base.rounds, new.rounds, return_indices=True)
    if ours.size < max(LEAST_PAIRS, LEAST_SHARED * max(base.rounds.size, new.rounds.size)):
        return None
    return ours, theirs


def _narrowest(found: Sequence[tuple[Contrast, ...]]) -> list[Contrast]:
    """Return the narrower of a paired contrast and one apart; a drift of both biases neither, as both saw all of it."""
    both = [place for place, ways in enumerate(found) if len(ways) > 1]
    low, high = Contrasts([each for place in both for each in found[place]]).log_bounds(ONE_SIGMA)
    paired, apart = (high - low).reshape(-1, 2).T
    is_apart = dict(zip(both, (apart < CLEARLY_NARROWER * paired).tolist(), strict=True))
    return [ways[is_apart.get(place, False)] for place, ways in enumerate(found)]


def _logarithms(series: Sequence[Series], seed: int) -> list[tuple[np.ndarray, float]]:
    """Return the logarithms of the durations with their ties spread, and the tick in ns."""
    found = [(each.durations, 0.0) for each in series]
    for places, rows, ticks in spread_all([each.durations for each in series], [each.tick_ns for each in series], seed):
        logarithms = np.log(np.maximum(rows, np.maximum(ticks / 4, 1e-3)[:, None]))
        for place, row, tick in zip(places, logarithms, ticks.tolist(), strict=True):
            found[place] = row, tick
    return found
