"""Ratios of two medians with an honest interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

RESAMPLES = 2000
CONFIDENCE = 0.95
MINIMUM = 5
"""Fewer samples (or shared rounds) than this carry no interval."""
SEED = 20231
"""Fixed, so that the same samples always give the same interval."""

METHOD = (
    "Ratios are ratios of medians; their "
    f"{CONFIDENCE * 100:.0f} % intervals are percentile bootstraps ({RESAMPLES} resamples, Efron and Tibshirani 1993, "
    "chapter 13): rounds are resampled together where both trials were measured in the same rounds, samples "
    "independently where they were not."
)


@dataclass(frozen=True)
class Ratio:
    """State how many times longer one trial took than another.

    Args:
        value: median of the first over median of the second.
        low: lower bound at `CONFIDENCE`; NaN where there are too few samples to say.
        high: upper bound.
        paired: the bounds come from rounds that both trials were measured in.
    """

    value: float
    low: float
    high: float
    paired: bool

    @property
    def known(self) -> bool:
        """Return whether there is an interval at all."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def established(self) -> bool:
        """Return whether the interval excludes "no difference"."""
        return self.known and not self.low <= 1.0 <= self.high


def ratio_of_medians(first: pd.DataFrame, second: pd.DataFrame, *, paired: bool) -> Ratio:
    """Return median(first) / median(second) with its interval.

    Args:
        first, second: samples with the columns `round` and `duration_ns` (excluded ones left out), not empty.
        paired: the two were measured in the same rounds, so that a round number means the same moment in both.
    """
    ours, theirs = first["duration_ns"].to_numpy(float), second["duration_ns"].to_numpy(float)
    value = float(np.median(ours) / np.median(theirs))
    shared = sorted(set(first["round"]) & set(second["round"])) if paired else []
    random = np.random.default_rng(SEED)
    if len(shared) >= MINIMUM:
        # Rounds that only one of them has are resampled too: they count in its median, so they count in the interval.
        rounds = sorted(set(first["round"]) | set(second["round"]))
        picks = random.integers(0, len(rounds), (RESAMPLES, len(rounds)))
        numerators = _median_of_rounds(_by_round(first, rounds), picks)
        denominators = _median_of_rounds(_by_round(second, rounds), picks)
    elif min(len(ours), len(theirs)) >= MINIMUM:
        numerators = np.median(ours[random.integers(0, len(ours), (RESAMPLES, len(ours)))], axis=1)
        denominators = np.median(theirs[random.integers(0, len(theirs), (RESAMPLES, len(theirs)))], axis=1)
    else:
        return Ratio(value, float("nan"), float("nan"), False)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(numerators / denominators, [tail, 1 - tail])
    return Ratio(value, float(low), float(high), len(shared) >= MINIMUM)


def _by_round(samples: pd.DataFrame, rounds: list[int]) -> np.ndarray:
    """Return the durations as (round, sample in the round), padded with NaN; a round without samples is all NaN."""
    groups = {number: group.to_numpy(float) for number, group in samples.groupby("round")["duration_ns"]}
    table = np.full((len(rounds), max(map(len, groups.values()))), np.nan)
    for row, number in zip(table, rounds, strict=True):
        found = groups.get(number, np.empty(0))
        row[: len(found)] = found
    return table


def _median_of_rounds(table: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """Return the median over the picked rounds, for every resample; NaN where it picked rounds without samples only."""
    picked = table[picks].reshape(len(picks), -1)
    medians = np.full(len(picked), np.nan)
    some = ~np.isnan(picked).all(axis=1)
    medians[some] = np.nanmedian(picked[some], axis=1)
    return medians
