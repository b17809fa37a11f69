"""The rule that turns intervals into verdicts, corrected for the number of comparisons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from cuprof.core.errors import SelectionError
from cuprof.statistics import Floats, Integers
from cuprof.statistics.contrasts import Contrasts


class Verdict(StrEnum):
    """Say what became of NEW against BASE."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"
    SAME_CODE = "same code"  # equal machine code and launches, so that their times differ by noise alone


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

    def decide(self, log_ratio: Floats, low: Floats, high: Floats) -> np.ndarray:
        """Return the words of the verdicts on log ratios with their intervals."""
        matters = math.log1p(self.effect)
        conditions = {
            Verdict.SAME.value: (low >= -matters) & (high <= matters),
            Verdict.SLOWER.value: (low > 0) & (log_ratio >= matters),
            Verdict.FASTER.value: (high < 0) & (log_ratio <= -matters),
        }
        return np.select([*conditions.values()], [*conditions], Verdict.UNDECIDED.value).astype(object)


class Judgement(NamedTuple):
    """The verdict on one comparison.

    Args:
        ratio: NEW / BASE; `low` and `high` are the ends of its interval at the level of the whole comparison.
        paired: by rounds.
        error_rate: chance that this interval misses the truth.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    paired: bool
    error_rate: float


def judge(contrasts: Contrasts, rule: Rule, choices: int = 0) -> dict[str, np.ndarray]:
    """Return the columns of the verdicts on many contrasts: those of `Judgement`.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979) on "there is no difference", carried out
    on intervals: all are formed at error_rate / (comparisons - those found different), which starts as Bonferroni's
    and is raised until no further one is found different. An interval excludes 1 exactly when Holm rejects.

    Args:
        choices: comparisons that could have been made; more than `contrasts` where the fastest of several tunables
            was chosen, each of which might have been the fastest by luck.
    """
    count = len(contrasts)
    total = max(choices, count, 1)
    level = rule.error_rate / total
    left = possible = _differing(contrasts, rule.error_rate, np.arange(count))  # no level is higher
    while (found := _differing(contrasts, level, left)).size:
        left = np.setdiff1d(left, found, assume_unique=True)
        level = rule.error_rate / max(1, total - (possible.size - left.size))
    low, high = contrasts.interval(level)
    log_ratio = contrasts.log_ratio
    with np.errstate(over="ignore"):
        ratio, below, above = np.exp(log_ratio), np.exp(low), np.exp(high)
    return {
        "verdict": rule.decide(log_ratio, low, high),
        "ratio": ratio,
        "low": below,
        "high": above,
        "paired": contrasts.paired,
        "error_rate": np.full(count, level),
    }


def list_judgements(columns: dict[str, np.ndarray]) -> list[Judgement]:
    """Return what `judge` returns, one by one."""
    values = zip(*(columns[name].tolist() for name in Judgement._fields), strict=True)
    return [Judgement(Verdict(verdict), *others) for verdict, *others in values]


def _differing(contrasts: Contrasts, error_rate: float, places: Integers) -> Integers:
    """Return those of some places at which the interval excludes equal times."""
    chosen = contrasts.take(places)
    low, high = chosen.interval(error_rate)
    return places[(low > 0) | (high < 0)]
