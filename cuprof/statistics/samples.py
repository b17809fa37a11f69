"""The samples of many series as ragged arrays: one behind the other, with where each ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuprof.statistics import Floats, Integers
from cuprof.statistics.median import SAME_TICK


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples that count of many series, each in the order in which they were taken.

    Args:
        values: durations in ns, above 0, float64: the first series, then the second, and so on. No series is empty.
        rounds: the number of each sample's round, int64; -1 where there were no rounds.
        ends: where each series ends in `values`, int64. The other arrays have one entry a series, too.
        tick_ns: the step in which the timer was read; 0 where it is not known.
        standard_error: relative standard error of a series of which only a summary is known, which has one value;
            0 for samples.
        rotation: words; samples of one round of two series with the same word were taken side by side. A series with
            an empty word was taken by itself.
    """

    values: Floats
    rounds: Integers
    ends: Integers
    tick_ns: Floats
    standard_error: Floats
    rotation: np.ndarray

    @classmethod
    def of(
        cls,
        series: Sequence[np.ndarray],
        rounds: Sequence[np.ndarray | None] = (),
        *,
        tick_ns: Sequence[float] | float = 0.0,
        standard_error: Sequence[float] | float = 0.0,
        rotation: Sequence[str] | str = "",
    ) -> Samples:
        """Return the samples of some arrays of durations; what has one value holds for every series."""
        count = len(series)
        given = rounds or [None] * count
        numbers = [np.full(len(each), -1) if own is None else own for each, own in zip(series, given, strict=True)]
        return cls(
            np.concatenate([np.empty(0), *series]).astype(np.float64),
            np.concatenate([np.empty(0, np.int64), *numbers]).astype(np.int64),
            np.cumsum([len(each) for each in series], dtype=np.int64),
            np.broadcast_to(np.asarray(tick_ns, dtype=np.float64), count),
            np.broadcast_to(np.asarray(standard_error, dtype=np.float64), count),
            np.broadcast_to(np.asarray(rotation, dtype=object), count),
        )

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """Return the series of some samples, one behind the other."""
        if not parts:
            return cls.of([])
        ends = np.concatenate([part.ends for part in parts])
        before = np.cumsum([0, *(part.values.size for part in parts[:-1])]).repeat([len(part) for part in parts])
        others = ("values", "rounds", "tick_ns", "standard_error", "rotation")
        return cls(
            ends=ends + before, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in others}
        )

    def __len__(self) -> int:
        return int(self.ends.size)

    @property
    def starts(self) -> Integers:
        """Return where each series starts in `values`."""
        return self.ends - self.counts

    @property
    def counts(self) -> Integers:
        """Return how many samples each series has."""
        return np.diff(self.ends, prepend=0)

    def take(self, places: Sequence[int] | np.ndarray) -> Samples:
        """Return some of the series in the order asked for."""
        places = np.asarray(places, dtype=np.int64)
        chosen, ends = ragged(self.starts[places], self.counts[places])
        facts = (self.tick_ns[places], self.standard_error[places], self.rotation[places])
        return Samples(self.values[chosen], self.rounds[chosen], ends, *facts)

    def medians(self) -> Floats:
        """Return the median of each series in ns, as it is stored with a timing."""
        ordered, last = self._spread(self.tick_ns), self.counts - 1
        low, high = ordered[self.starts + last // 2], ordered[self.starts + (last + 1) // 2]
        found: Floats = high - (high - low) / 2
        return found

    def logarithms(self, seed: int = 0) -> tuple[Floats, Integers]:
        """Return the logarithms of the values with ties spread over their tick, and what orders them.

        A timer that counts in ticks (32 ns for CUDA's events) puts many samples on one value. The same samples always
        spread alike. The seed orders equal ones: two series that are paired need two.
        """
        tick, order = self.ticks(), order_of(self.values, self.ends, seed)
        least = np.where(tick > 0, np.maximum(tick / 4, 1e-3), 0.0)
        values = np.empty_like(self.values)
        values[order] = np.log(np.maximum(self._spread(tick), least.repeat(self.counts)))
        return values, order

    @cached_property
    def _ordered(self) -> Floats:
        return self.values[order_of(self.values, self.ends)]

    def ticks(self) -> Floats:
        """Return each series' tick in ns; where it is not known, the least step if some samples are equal, else 0."""
        steps = self._steps()
        least = self._least(np.where(steps > 0, steps, np.inf))
        is_guessed = (self.tick_ns <= 0) & (self._least(steps) == 0) & np.isfinite(least)
        return np.where(self.tick_ns > 0, self.tick_ns, np.where(is_guessed, least, 0.0))

    def _spread(self, tick: Floats) -> Floats:
        """Return each series ascending with ties spread over a tick of its own; 0 spreads nothing."""
        ordered, steps = self._ordered, self._steps()
        apart = steps > SAME_TICK * tick.repeat(self.counts)
        step = np.where(tick > 0, np.minimum(self._least(np.where(apart, steps, np.inf)), tick), 0.0)
        last = np.flatnonzero(apart)  # of the samples on one tick
        sizes = np.diff(last, prepend=-1)
        first = (last + 1 - sizes).repeat(sizes)
        share = (np.arange(ordered.size) - first + 0.5) / sizes.repeat(sizes) - 0.5
        return ordered + step.repeat(self.counts) * share

    def _steps(self) -> Floats:
        """Return how far each of the ascending samples is from the next one of its series; infinite for the last."""
        steps = np.diff(self._ordered, append=np.inf)
        steps[self.ends - 1] = np.inf
        return steps

    def _least(self, values: Floats) -> Floats:
        """Return the least of the values that stand where each series' samples do."""
        return np.minimum.reduceat(values, self.starts) if len(self) else np.empty(0)


def order_of(values: Floats, ends: Integers, seed: int | None = None) -> Integers:
    """Return what orders the values so that each series is ascending.

    Args:
        values: many series, one behind the other.
        ends: where each ends.
        seed: orders equal values of one series; without it, they keep their order.
    """
    order, counts = np.empty(values.size, dtype=np.int64), np.diff(ends, prepend=0)
    by_count = np.argsort(counts, kind="stable")
    # All series of one length are a table, whose rows are sorted many times faster than series one by one.
    for alike in np.split(by_count, np.flatnonzero(np.diff(counts[by_count])) + 1):
        length = counts[alike].max(initial=0)
        places = (ends - counts)[alike, None] + np.arange(length)
        turned = places if seed is None else places[:, np.random.default_rng(seed).permutation(length)]
        ranks = np.argsort(values[turned], axis=1, kind="stable")
        order[places] = np.take_along_axis(turned, ranks, axis=1)
    return order


def ragged(starts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return ranges of whole numbers one behind the other, each of `counts` numbers from its start, and their ends."""
    ends = np.cumsum(counts, dtype=np.int64)
    numbers = np.arange(int(ends[-1]) if ends.size else 0) + (starts - (ends - counts)).repeat(counts)
    return numbers, ends
