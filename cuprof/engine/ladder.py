"""The rungs that the trials of a search climb: few samples, then more, then up to three final comparisons."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cuprof.config.model import MeasureConfig, SweepConfig
from cuprof.core.records import Outcome, Trial
from cuprof.search.strategy import Strategy

FEW: dict[str, Any] = {"min_samples": 5, "max_samples": 5, "max_seconds": 0.05, "patience_seconds": 0.5}
MORE: dict[str, Any] = {"min_samples": 20, "max_samples": 60, "max_seconds": 0.25, "patience_seconds": 2.0}
"""Few samples separate most configurations from the best; the remaining ones deserve more."""
BRIEF: dict[str, Any] = {"warmup": 1, "settle_seconds": 0.05, "energy_seconds": 0.2}
CLOSE = 0.05
"""Candidates for the final comparison are within this of the best, or the best few; one that qualifies after few
samples gets more."""
LEAST_FINALISTS = 3
OVERHEAD_S = 0.01
"""The approximate cost of a trial beside its build and samples. No trial is free, since gains are weighed by cost."""
SHARE_OF_EFFECT = 0.2
"""Narrow each median's interval to this part of the effect: two of them, corrected for many comparisons, then tell
it."""
LEAST_TARGET = 5e-4


def list_rungs(config: SweepConfig) -> list[MeasureConfig]:
    """Return how trials are timed on the first two rungs, by the first of the sweep's measures."""
    shared = {
        **BRIEF,
        "modes": config.measure.modes[:1],
        "energy": "energy" in config.search.factors,
        "race": config.measure.race is not False,
    }
    return [replace(config.measure, **shared, **samples) for samples in (FEW, MORE)]


def sample_longer(measure: MeasureConfig, effect: float, times: int) -> MeasureConfig:
    """Return settings that compare trials side by side, to an interval that tells an effect.

    Args:
        effect: the smallest share by which times differ.
        times: how many times as many samples, and as much time, a trial may take.
    """
    return replace(
        measure,
        target=min(measure.target, max(LEAST_TARGET, SHARE_OF_EFFECT * effect)),
        max_samples=measure.max_samples * times,
        max_seconds=measure.max_seconds * times,
        patience_seconds=measure.patience_seconds * times,
        interleave=True,
    )


class Ladder:
    """Keep how far each trial has climbed, and choose those that climb further; trials are known by their place.

    Args:
        trials: all trials that may be tried.
        value_of: the objective of an outcome; NaN if it failed.

    Attributes:
        tried: those that were measured in this sweep.
        climbed: place → how many rungs it has been on.
        promoted: those that were promising when their first result arrived.
    """

    def __init__(
        self, config: SweepConfig, trials: Sequence[Trial], strategy: Strategy, value_of: Callable[[Outcome], float]
    ) -> None:
        self.settings, self.trials, self.strategy, self.value_of = config.search, trials, strategy, value_of
        self.tried: set[int] = set()
        self.climbed: Counter[int] = Counter()
        self.promoted: set[int] = set()

    def tell(self, index: int, outcome: Outcome) -> None:
        """Take the result of a trial on its rung."""
        self.strategy.tell(index, self.value_of(outcome), _cost_s(outcome))
        needs_more = set(self.settings.factors) != set(self.settings.counters)  # a counter is exact at once
        if needs_more and self.climbed[index] == 1 and self._is_promising(index):
            self.promoted.add(index)

    def take_promising(self) -> list[int]:
        """Return those of the promoted that are promising still, the best first; none is promoted any more."""
        promising = sorted(filter(self._is_promising, self.promoted), key=self.strategy.values.__getitem__)
        self.promoted.clear()
        return promising

    def choose_candidates(self, group: int) -> list[int]:
        """Return the candidates for a problem's final comparison, the best first.

        Only the best one is returned if the finalists are of several back ends, which are not timed side by side, or if
        the objective is not time.
        """
        chosen = self._find_finalists(group)
        several = len({self.trials[index].backend for index in chosen}) > 1
        return chosen[:1] if several or self.settings.objective != "time" else chosen

    def _is_promising(self, index: int) -> bool:
        return index in self._find_finalists(int(self.strategy.space.groups[index]))

    def _find_finalists(self, group: int) -> list[int]:
        """Return those that would be compared if the search ended now, the best first."""
        values, groups = self.strategy.values, self.strategy.space.groups
        right = (index for index, value in values.items() if groups[index] == group and not math.isnan(value))
        ranked = heapq.nsmallest(self.settings.finalists, right, key=values.__getitem__)
        close = sum(values[index] <= (1 + CLOSE) * values[ranked[0]] for index in ranked)
        return ranked[: max(LEAST_FINALISTS, close)]


def _cost_s(outcome: Outcome) -> float:
    """Return a trial's own cost in seconds; with neighbours, its whole duration includes theirs."""
    build_ns = outcome.build.build_ns if outcome.build and not outcome.build.cached else 0
    sampled_ns = sum(sample.duration_ns for timing in outcome.timings for sample in timing.samples)
    own_ns = build_ns + sampled_ns if outcome.timings else outcome.duration_ns
    return own_ns / 1e9 + OVERHEAD_S
