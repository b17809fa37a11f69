"""When enough samples have been taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuprof.records import Sample, Summary
from cuprof.statistics.median import least_count, summarise

GROWTH = 1.15
"""The interval is looked at again when the samples have grown by this factor: looking after every sample would stop
on a lucky one too often, and cost more than the sampling of short kernels."""
MOST_EXCLUDED = 3.0
"""Sampling ends when this many times as many samples were left out as counted, plus the minimum."""


FORESEEN = 0.25
"""After this part of the time it is asked whether the rest could be enough."""
OUT_OF_REACH = 3.0
"""It could not where the interval, which narrows with the square root of the time, would still be so many times as wide
as it should be. A device's two speeds, some percent apart, do not come to that: with them it narrows suddenly."""


@dataclass(frozen=True)
class StoppingRule:
    """Stop at a narrow interval of the median, at a bound, or where no bound would let it become narrow.

    Args:
        target: half-width of the interval, relative to the median.
        confidence: level of the interval.
        min_samples: not fewer before `max_ns`.
        max_samples: not more.
        max_ns: time bound, applied once there are enough samples for an interval, or `min_samples` if those are fewer.
        patience_ns: time bound that holds even below that, for executions of seconds.
    """

    target: float = 0.005
    confidence: float = 0.95
    min_samples: int = 20
    max_samples: int = 10_000
    max_ns: float = 1e9
    patience_ns: float = 10e9

    def is_due(self, count: int, spent_ns: float, last_look: int) -> bool:
        """Return whether it is time to look at the interval.

        Args:
            count: samples taken so far.
            spent_ns: wall time spent on them.
            last_look: how many samples there were when the interval was last looked at.
        """
        if spent_ns >= self.patience_ns:
            return True
        if count < self._least(spent_ns):
            return False
        return count >= last_look * GROWTH or count >= self.max_samples or spent_ns >= self.max_ns

    def reason(self, samples: Sequence[Sample], spent_ns: float, tick_ns: float = 0.0) -> str | None:
        """Return why to stop now ("interval", "samples", "time", "excluded"), or None to go on.

        Args:
            tick_ns: the step in which durations are read.
        """
        if spent_ns >= self.patience_ns:
            return "time"
        counted = sum(not sample.excluded for sample in samples)
        left_out = len(samples) - counted
        if counted >= self._least(spent_ns):
            enough = counted >= least_count(self.confidence)
            summary = summarise(samples, self.confidence, tick_ns) if enough else None
            if summary and is_narrow(summary, self.target):
                return "interval"
            if counted >= self.max_samples:
                return "samples"
            if spent_ns >= self.max_ns or (summary and self._is_out_of_reach(summary, spent_ns)):
                return "time"
        return "excluded" if left_out >= MOST_EXCLUDED * max(counted, self.min_samples) else None

    def _is_out_of_reach(self, summary: Summary, spent_ns: float) -> bool:
        share = spent_ns / self.max_ns
        return share >= FORESEEN and not is_narrow(summary, OUT_OF_REACH * self.target / share**0.5)

    def _least(self, spent_ns: float) -> int:
        """Return how many samples there are to be before sampling may stop, but for patience."""
        return min(self.min_samples, least_count(self.confidence)) if spent_ns >= self.max_ns else self.min_samples


def is_narrow(summary: Summary, target: float) -> bool:
    """Return whether the interval of the median is within ± `target` of the median."""
    half_width = max(summary.high_ns - summary.median_ns, summary.median_ns - summary.low_ns)
    return half_width <= target * summary.median_ns
