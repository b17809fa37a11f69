"""When enough samples have been taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
        target: half-width of the interval, relative to the median.
        confidence: level of the interval.
        min_samples: not fewer before `max_ns`, but where the rest would not make the interval narrow.
        max_samples: not more.
        max_ns: time bound, applied once there are enough samples for an interval, or `min_samples` if those are fewer.
        patience_ns: time bound that holds even below that, for executions of seconds.
        races: trials may be stopped as slower than the best, and are looked at early.
    """

    target: float = 0.005
    confidence: float = 0.95
    min_samples: int = 20
    max_samples: int = 10_000
    max_ns: float = 1e9
    patience_ns: float = 10e9
    races: bool = False

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
        if self.races:
            least = min(least, least_count(RACE_CONFIDENCE))
        if count < (least if spent_ns < FORESEEN * self.max_ns else min(least, FORESEEN_FROM)):
            return False
        return count >= last_look * GROWTH or count >= self.max_samples or spent_ns >= self.max_ns

    def reason(self, durations_ns: Sequence[float], left_out: int, spent_ns: float, tick_ns: float = 0.0) -> str | None:
        """Return why to stop now ("interval", "samples", "time", "excluded"), or None to go on.

        Args:
            durations_ns: of the samples that count.
            left_out: how many do not.
            tick_ns: the step in which durations are read.
        """
        if spent_ns >= self.patience_ns:
            return "time"
        counted = len(durations_ns)
        enough = counted >= least_count(self.confidence)
        if counted >= self._least(spent_ns):
            if enough and is_narrow(durations_ns, self.confidence, self.target, tick_ns):
                return "interval"
            if counted >= self.max_samples:
                return "samples"
            if spent_ns >= self.max_ns:
                return "time"
        foreseen = enough and counted >= min(self.min_samples, FORESEEN_FROM)
        if foreseen and self._is_out_of_reach(durations_ns, spent_ns, tick_ns):
            return "time"
        return "excluded" if left_out >= MOST_EXCLUDED * max(counted, self.min_samples) else None

    def _is_out_of_reach(self, durations_ns: Sequence[float], spent_ns: float, tick_ns: float) -> bool:
        share = spent_ns / self.max_ns
        if share < FORESEEN:
            return False
        within_reach = max(OUT_OF_REACH * self.target / share**0.5, TWO_SPEEDS)
        return not is_narrow(durations_ns, self.confidence, within_reach, tick_ns)

    def _least(self, spent_ns: float) -> int:
        """Return how many samples are needed before sampling may stop, apart from patience, foresight and races."""
        return min(self.min_samples, least_count(self.confidence)) if spent_ns >= self.max_ns else self.min_samples


@dataclass
class Race:
    """The best time of a problem's trials so far, by one measure and method.

    Attributes:
        best_ns: the lowest upper end of a trial's interval.
    """

    best_ns: float = math.inf

    def is_lost(self, durations_ns: Sequence[float], tick_ns: float = 0.0) -> bool:
        """Note a trial's samples; return whether it is established to be slower than the best by more than a margin."""
        if len(durations_ns) < least_count(RACE_CONFIDENCE):
            return False
        _, low, high = locate_median(np.sort(np.asarray(durations_ns, dtype=np.float64)), RACE_CONFIDENCE, tick_ns)
        self.best_ns = min(self.best_ns, high)
        return low > (1 + RACE_MARGIN) * self.best_ns
