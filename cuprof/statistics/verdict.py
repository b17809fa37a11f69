"""The rule that turns intervals into verdicts, corrected for the number of comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from cuprof.core.errors import SelectionError
from cuprof.statistics.contrast import Contrast, Contrasts


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


class Judgement(NamedTuple):
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


def judge(contrasts: Sequence[Contrast] | Contrasts, rule: Rule, choices: int = 0) -> list[Judgement]:
    """Return the judgement of each contrast.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979) on "there is no difference", carried out
    on intervals: all are formed at error_rate / (comparisons - those found different), which starts as Bonferroni's
    and is raised until no further one is found different. An interval excludes 1 exactly when Holm rejects.

    Args:
        choices: comparisons that could have been made; more than `contrasts` where the fastest of several tunables
            was chosen, each of which might have been the fastest by luck.
    """
    all_of_them = contrasts if isinstance(contrasts, Contrasts) else Contrasts(contrasts)
    count = all_of_them.log_ratios.size
    total = max(choices, count, 1)
    level = rule.error_rate / total
    left = possible = all_of_them.find_differing(rule.error_rate, np.arange(count))  # no level is higher
    while (found := all_of_them.find_differing(level, left)).size:
        left = np.setdiff1d(left, found, assume_unique=True)
        level = rule.error_rate / max(1, total - (possible.size - left.size))
    low, high = (each.tolist() for each in all_of_them.log_bounds(level))
    return [
        Judgement(
            rule.decide(log_ratio, below, above),
            math.exp(log_ratio),
            math.exp(below),
            math.exp(min(above, 700.0)) if above < math.inf else math.inf,
            paired,
            level,
        )
        for paired, log_ratio, below, above in zip(
            all_of_them.paired, all_of_them.log_ratios.tolist(), low, high, strict=True
        )
    ]
