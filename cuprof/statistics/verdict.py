"""The rule that turns intervals into verdicts, corrected for the number of comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cuprof.errors import SelectionError
from cuprof.statistics.contrast import Contrast, foresee


class Verdict(StrEnum):
    """Say what became of NEW against BASE."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Rule:
    """Say when two times are called different.

    Args:
        effect: the smallest relative difference that matters; 0 lets every established difference count.
        error_rate: chance that even one of all comparisons of equal times is called different (family-wise, Holm).
    """

    effect: float = 0.01
    error_rate: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.effect < 1:
            raise SelectionError(f"the effect is {self.effect:g}; give a share from 0 up to 1, such as 1% or 0.01")
        if not 1e-9 <= self.error_rate <= 0.5:
            raise SelectionError(
                f"the error rate is {self.error_rate:g}; give a share between 1e-9 and 0.5, such as 5%"
            )

    def decide(self, log_ratio: float, low: float, high: float) -> Verdict:
        """Return the verdict on one log ratio and its interval."""
        matters = math.log1p(self.effect)
        if -matters <= low and high <= matters:
            return Verdict.SAME
        if low > 0 and log_ratio >= matters:
            return Verdict.SLOWER
        if high < 0 and log_ratio <= -matters:
            return Verdict.FASTER
        return Verdict.UNDECIDED


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one comparison.

    Args:
        ratio: NEW / BASE.
        low, high: its interval at the level of the whole comparison.
        paired: by rounds.
        error_rate: chance that this interval misses the truth.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    paired: bool
    error_rate: float


def judge(contrasts: Sequence[Contrast], rule: Rule, choices: int = 0) -> list[Judgement]:
    """Return the judgement of each contrast.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979) on "there is no difference", carried out
    on intervals: all are formed at error_rate / (comparisons - those found different), which starts as Bonferroni's
    and is raised until no further one is found different. An interval excludes 1 exactly when Holm rejects.

    Args:
        choices: comparisons that could have been made; more than `contrasts` where the fastest of several tunables
            was chosen, each of which might have been the fastest by luck.
    """
    total = max(choices, len(contrasts), 1)
    level = rule.error_rate / total
    possible = _differing(contrasts, rule.error_rate)  # no level is higher
    left = possible
    while True:
        found = set(map(id, _differing(left, level)))
        if not found:
            break
        left = [contrast for contrast in left if id(contrast) not in found]
        level = rule.error_rate / max(1, total - (len(possible) - len(left)))
    foresee(contrasts, level)
    bounds = [contrast.log_bounds(level) for contrast in contrasts]
    return [
        Judgement(
            rule.decide(contrast.log_ratio, low, high),
            math.exp(contrast.log_ratio),
            math.exp(low),
            math.exp(min(high, 700.0)) if high < math.inf else math.inf,
            contrast.paired,
            level,
        )
        for contrast, (low, high) in zip(contrasts, bounds, strict=True)
    ]


def _differing(contrasts: Sequence[Contrast], error_rate: float) -> list[Contrast]:
    """Return those whose interval excludes equal times."""
    foresee(contrasts)
    open_ = [contrast for contrast in contrasts if contrast.may_differ(error_rate)]
    foresee(open_, error_rate)
    return [contrast for contrast in open_ if not _includes_0(*contrast.log_bounds(error_rate))]


def _includes_0(low: float, high: float) -> bool:
    return low <= 0 <= high
