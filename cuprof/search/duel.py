"""The end of a search: which of a few candidates is best, and which are level with it, at a stated error rate."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cuprof.point import Point
from cuprof.records import Measure
from cuprof.statistics.contrast import Pair, contrast_all
from cuprof.statistics.noise import NO_NOISE, PREPARED, Noise
from cuprof.statistics.series import Series
from cuprof.statistics.verdict import Judgement, Rule, Verdict, judge

K = TypeVar("K", bound=Hashable)

LOOKS = 3
"""The duel ends after so many looks at the latest; each has samples of its own and its part of the error rate."""


@dataclass(frozen=True)
class Standing(Generic[K]):
    """What one look at the candidates says.

    Args:
        best: the one with the smallest median.
        judgements: of every other one against it; "slower" ones are beaten, "same" ones level.
    """

    best: K
    judgements: Mapping[K, Judgement]

    def list_level(self) -> list[K]:
        """Return those whose times are the best one's within the effect."""
        return [each for each, judgement in self.judgements.items() if judgement.verdict is Verdict.SAME]

    def list_open(self) -> list[K]:
        """Return those that may be better or worse than the best one."""
        return [each for each, judgement in self.judgements.items() if judgement.verdict is Verdict.UNDECIDED]

    def list_beaten(self) -> list[K]:
        """Return those that are slower."""
        return [each for each, judgement in self.judgements.items() if judgement.verdict is Verdict.SLOWER]


def find_differing(tunables: Point, best: Point) -> Point:
    """Return what a configuration has otherwise than the best one."""
    return Point((name, value) for name, value in tunables.items() if best.get(name) != value)


def noise_of(measure: Measure, *, on_host: bool) -> Callable[[float], Noise]:
    """Return median in ns → noise of times taken side by side: on the host a function's place in memory counts."""
    if measure is not Measure.COLD or not on_host:
        return lambda median_ns: NO_NOISE
    return lambda median_ns: Noise(PREPARED.deviation(median_ns))


def look(series: Mapping[K, Series], rule: Rule, noise: Callable[[float], Noise]) -> Standing[K]:
    """Compare the best of some candidates with every other one, by samples that were taken side by side.

    Which is best was told from the same samples, so any pair might have been the one that is compared: all count.

    Args:
        noise: median in ns → the noise of such a time beside what its samples show.
    """
    best = min(series, key=lambda each: series[each].median_ns)
    others = [each for each in series if each != best]
    level = noise(series[best].median_ns)
    contrasts = contrast_all([Pair(series[best], series[each], level) for each in others])
    judgements = judge(contrasts, rule, len(series) * (len(series) - 1) // 2)
    return Standing(best, dict(zip(others, judgements, strict=True)))
