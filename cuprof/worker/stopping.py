"""When enough samples have been taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuprof.config.model import MeasureConfig
from cuprof.statistics.median import is_narrow, least_count, locate_median

GROWTH = 1.15
"""Test the interval again when the samples have grown by this factor. Testing after every sample would too often stop
on a lucky one, and cost more than sampling a short kernel does."""
MOST_EXCLUDED = 3.0
"""Stop once the excluded samples outnumber the counted ones, or the minimum if that is more, by this factor."""
FORESEEN, FORESEEN_FROM = 0.25, 10
"""After this fraction of the time limit and this many samples, judge whether the remaining time could be enough. Six
samples make an interval, but on a busy host their median was twice the real one."""
OUT_OF_REACH = 3.0
"""The remaining time cannot be enough if the interval, which narrows with the square root of the time, would still end
up this many times as wide as the target."""
TWO_SPEEDS = 0.03
"""Never give up on an interval narrower than this: it may span two speeds of a device and narrow suddenly."""
RACE_CONFIDENCE, RACE_MARGIN = 0.99, 0.01
"""A trial has lost a race if its interval at this level lies above the best one's by more than this fraction."""


@dataclass(frozen=True)
class StoppingRule:
    """Stop at a narrow interval of the median, at a bound, or where no bound would let it become narrow.

    Args:
        config: where trials race, they may be stopped as slower than the best, and are looked at early.
    """

    config: MeasureConfig

    @property
    def max_ns(self) -> float:
        """Return the time bound that holds from enough samples for an interval on, or from `min_samples` if fewer."""
        return self.config.max_seconds * 1e9

    @property
    def patience_ns(self) -> float:
        """Return the time bound that holds even below that, for executions of seconds."""
        return self.config.patience_seconds * 1e9

    def is_due(self, count: int, spent_ns: float, last_look: int) -> bool:
        """Return whether to test the interval now.

        Args:
            count: samples taken so far.
            spent_ns: wall time spent on them.
            last_look: how many samples there were when the interval was last tested.
        """
        if spent_ns >= self.patience_ns:
            return True
        least = self._least(spent_ns)
        if self.config.race:
            least = min(least, least_count(RACE_CONFIDENCE))
        if count < (least if spent_ns < FORESEEN * self.max_ns else min(least, FORESEEN_FROM)):
            return False
        return count >= last_look * GROWTH or count >= self.config.max_samples or spent_ns >= self.max_ns

    def reason(self, durations_ns: Sequence[float], left_out: int, spent_ns: float, tick_ns: float = 0.0) -> str | None:
        """Return why to stop now ("interval", "samples", "time", "excluded"), or None to go on.

        Args:
            durations_ns: of the samples that count.
            left_out: how many do not.
            tick_ns: the step in which durations are read.
        """
        if spent_ns >= self.patience_ns:
            return "time"
        config, counted = self.config, len(durations_ns)
        enough = counted >= least_count(config.confidence)
        if counted >= self._least(spent_ns):
            if enough and is_narrow(durations_ns, config.confidence, config.target, tick_ns):
                return "interval"
            if counted >= config.max_samples:
                return "samples"
            if spent_ns >= self.max_ns:
                return "time"
        foreseen = enough and counted >= min(config.min_samples, FORESEEN_FROM)
        if foreseen and self._is_out_of_reach(durations_ns, spent_ns, tick_ns):
            return "time"
        return "excluded" if left_out >= MOST_EXCLUDED * max(counted, config.min_samples) else None

    def _is_out_of_reach(self, durations_ns: Sequence[float], spent_ns: float, tick_ns: float) -> bool:
        share = spent_ns / self.max_ns
        if share < FORESEEN:
            return False
        within_reach = max(OUT_OF_REACH * self.config.target / share**0.5, TWO_SPEEDS)
        return not is_narrow(durations_ns, self.config.confidence, within_reach, tick_ns)

    def _least(self, spent_ns: float) -> int:
        """Return how many samples are needed before sampling may stop, apart from patience, foresight and races."""
        least = self.config.min_samples
        return min(least, least_count(self.config.confidence)) if spent_ns >= self.max_ns else least


@dataclass
class Race:
    """The best time of a problem's trials so far, by one measure and method.

    Attributes:
        best_ns: the lowest upper end of a trial's interval.
        holder: whose it is. It cannot lose to itself, though a host or a device that became slower may say so.
    """

    best_ns: float = math.inf
    holder: object = None

    def is_lost(self, who: object, durations_ns: Sequence[float], tick_ns: float = 0.0) -> bool:
        """Note a trial's samples; return whether it is established to be slower than the best by more than a margin."""
        if len(durations_ns) < least_count(RACE_CONFIDENCE):
            return False
        _, low, high = locate_median(np.sort(np.asarray(durations_ns, dtype=np.float64)), RACE_CONFIDENCE, tick_ns)
        if high < self.best_ns:
            self.best_ns, self.holder = high, who
        return who != self.holder and low > (1 + RACE_MARGIN) * self.best_ns
