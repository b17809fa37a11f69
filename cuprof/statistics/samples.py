"""The samples of many series as ragged arrays: one behind the other, with where each ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cuprof.statistics.ticks import SAME_TICK

QUARTERS = (0.25, 0.5, 0.75)


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

    values: np.ndarray
    rounds: np.ndarray
    ends: np.ndarray
    tick_ns: np.ndarray
    standard_error: np.ndarray
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
    def starts(self) -> np.ndarray:
        """Return where each series starts in `values`."""
        found: np.ndarray = self.ends - self.counts
        return found

    @property
    def counts(self) -> np.ndarray:
        """Return how many samples each series has."""
        found: np.ndarray = np.diff(self.ends, prepend=0)
        return found

    def take(self, places: Sequence[int] | np.ndarray) -> Samples:
        """Return some of the series in the order asked for."""
        places = np.asarray(places, dtype=np.int64)
        chosen, ends = ragged(self.starts[places], self.counts[places])
        facts = (self.tick_ns[places], self.standard_error[places], self.rotation[places])
        return Samples(self.values[chosen], self.rounds[chosen], ends, *facts)

    def series(self, place: int) -> np.ndarray:
        """Return the durations of one series, in ns."""
        found: np.ndarray = self.values[self.starts[place] : self.ends[place]]
        return found

    def quartiles(self) -> np.ndarray:
        """Return the quartiles of each series in ns, an array of three columns, as they are stored with a timing."""
        ordered, _ = self._spread(0, self.tick_ns)
        found = np.empty((len(self), len(QUARTERS)))
        for column, share in enumerate(QUARTERS):
            place = share * (self.counts - 1)
            whole = place.astype(np.int64)
            part = place - whole
            low = ordered[self.starts + whole]
            high = ordered[self.starts + np.minimum(whole + 1, self.counts - 1)]
            found[:, column] = np.where(part >= 0.5, high - (high - low) * (1 - part), low + (high - low) * part)
        return found

    def medians(self) -> np.ndarray:
        """Return the median of each series in ns, as it is stored with a timing."""
        found: np.ndarray = self.quartiles()[:, 1]
        return found

    def logarithms(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of the values with ties spread over their tick, and the tick of each series in ns.

        A timer that counts in ticks (32 ns for CUDA's events) puts many samples on one value. The same samples always
        spread alike.

        Args:
            seed: orders equal samples. Two series that are paired need two seeds.
        """
        tick = self._ticks()
        ordered, order = self._spread(seed, tick)
        values = np.empty_like(self.values)
        values[order] = ordered
        least = np.where(tick > 0, np.maximum(tick / 4, 1e-3), 0.0)
        return np.log(np.maximum(values, least.repeat(self.counts))), tick

    def _ticks(self) -> np.ndarray:
        """Return each series' tick in ns; where it is not known, the least step if some samples are equal, else 0."""
        order, number = np.lexsort((self.values, self._numbers)), self._numbers
        steps = self._steps(self.values[order])
        least, is_tied = np.full(len(self), np.inf), np.zeros(len(self), dtype=bool)
        np.minimum.at(least, number, np.where(steps > 0, steps, np.inf))
        is_tied[number[steps == 0]] = True
        return np.where(self.tick_ns > 0, self.tick_ns, np.where(is_tied & np.isfinite(least), least, 0.0))

    def _spread(self, seed: int, tick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each series ascending with ties spread over a tick of its own (0: not), and what orders it so."""
        number = self._numbers
        turns = np.concatenate([np.empty(0, np.int64), *(_turns(seed, count) for count in self.counts.tolist())])
        order = np.lexsort((turns, self.values, number))
        ordered = self.values[order]
        steps = self._steps(ordered)
        apart = steps > SAME_TICK * tick[number]
        step = np.full(len(self), np.inf)
        np.minimum.at(step, number, np.where(apart, steps, np.inf))
        step = np.where(tick > 0, np.minimum(step, tick), 0.0)
        last = np.flatnonzero(apart)  # of the samples on one tick
        sizes = np.diff(last, prepend=-1)
        first = (last + 1 - sizes).repeat(sizes)
        share = (np.arange(ordered.size) - first + 0.5) / sizes.repeat(sizes) - 0.5
        return ordered + step[number] * share, order

    @property
    def _numbers(self) -> np.ndarray:
        """Return the number of the series that each sample belongs to."""
        return np.arange(len(self)).repeat(self.counts)

    def _steps(self, ordered: np.ndarray) -> np.ndarray:
        """Return how far each of the ascending samples is from the next one of its series; infinite for the last."""
        steps = np.diff(ordered, append=np.inf)
        steps[self.ends - 1] = np.inf
        return steps


def ragged(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges of whole numbers one behind the other, each of `counts` numbers from its start, and their ends."""
    ends = np.cumsum(counts, dtype=np.int64)
    numbers = np.arange(int(ends[-1]) if ends.size else 0) + (starts - (ends - counts)).repeat(counts)
    return numbers, ends


@lru_cache(maxsize=2048)
def _turns(seed: int, count: int) -> np.ndarray:
    """Return the turn that each of `count` equal samples has, in an order that the seed decides; read-only."""
    turns: np.ndarray = np.argsort(np.random.default_rng(seed).permutation(count))
    return turns
