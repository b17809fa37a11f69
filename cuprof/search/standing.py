"""The standing of a few candidates: the best, and those level with it, at a stated error rate."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from cuprof.core.point import Point
from cuprof.core.text import level_text, list_first
from cuprof.statistics.contrasts import contrast, learn
from cuprof.statistics.noise import NO_NOISE, PREPARED, Noise
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Judgement, Rule, Verdict, judge, list_judgements

K = TypeVar("K", bound=Hashable)

LOOKS = 3
"""Compare the candidates at most this many times. Each time, a look, takes new samples and an equal share of the error
rate."""
MOST_NAMED = 4


@dataclass(frozen=True)
class Standing(Generic[K]):
    """The result of one look at the candidates.

    Args:
        best: the one with the smallest median.
        judgements: every other one → its judgement against the best; "slower" ones are beaten, "same" ones level.
    """

    best: K
    judgements: Mapping[K, Judgement]

    def list_judged(self, verdict: Verdict) -> list[K]:
        """Return those with a verdict: "same" are level within the effect, "undecided" may be better or worse."""
        return [each for each, judgement in self.judgements.items() if judgement.verdict is verdict]

    def describe(self, name: Callable[[K], str], effect: float, error_rate: float, beaten_before: int = 0) -> str:
        """Return a sentence on the best one: "level with a=2 (within 1 %), faster than 3; error rate 5 %".

        Args:
            name: returns how a candidate differs from the best.
            error_rate: that of all looks together.
            beaten_before: how many were slower in an earlier look, and left out of this one.
        """
        level = self.list_judged(Verdict.SAME)
        unsure, beaten = len(self.list_judged(Verdict.UNDECIDED)), len(self.list_judged(Verdict.SLOWER))
        slower = {f"than {beaten}": beaten, f"than {beaten_before} in earlier comparisons": beaten_before}
        parts = {
            f"level with {list_first([*map(name, level)], MOST_NAMED, '; ')} (within {level_text(effect)})": level,
            f"undecided against {unsure} more": unsure,
            f"faster {', '.join(text for text, number in slower.items() if number)}": beaten or beaten_before,
        }
        return f"{', '.join(part for part, found in parts.items() if found)}; error rate {level_text(error_rate)}"


def describe_failed(candidates: int) -> str:
    """Return a sentence for candidates that all failed when they were compared."""
    if candidates == 1:
        return "the best gave no right result when it was compared"
    return f"none of the {candidates} best gave a right result again when they were compared"


def find_differing(tunables: Point, best: Point) -> Point:
    """Return the tunables in which a configuration differs from the best one."""
    return Point((name, value) for name, value in tunables.items() if best.get(name) != value)


def look(samples: Mapping[K, Samples], rule: Rule, *, on_host: bool = False) -> Standing[K]:
    """Compare the best of some candidates with every other one, by samples that were taken side by side.

    The same samples decide which one is best, so any pair might have been compared: the correction counts them all.

    Args:
        samples: one series a candidate.
        on_host: they are cold times of the host, to which a function's place in memory adds noise.
    """
    names, together = list(samples), Samples.joined(list(samples.values()))
    medians = together.medians()
    best = int(medians.argmin())
    others = [place for place in range(len(names)) if place != best]
    noise = Noise(float(PREPARED.deviations(float(medians[best])))) if on_host else NO_NOISE
    level = np.tile(noise, (len(others), 1))
    known = learn(together).take(np.zeros(len(others), np.int64))
    pairs = together.take([best] * len(others)), together.take(others)
    contrasts = contrast(*pairs, level, known=known)
    judged = list_judgements(judge(contrasts, rule, len(names) * (len(names) - 1) // 2))
    return Standing(names[best], dict(zip([names[place] for place in others], judged, strict=True)))
