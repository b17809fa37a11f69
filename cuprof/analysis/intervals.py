"""Intervals of medians: which times have one, and what stands in its place where they have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cuprof.analysis.quantities import count
from cuprof.statistics.median import is_mere_range

MEASURES = ("cold", "hot", "total", "time")


def drop_mere_ranges(trials: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the trials without the bounds of times whose samples are too few for an interval at this level.

    What is stored of those is the range of the samples: of one sample no width at all, as if its time were known
    perfectly.

    Args:
        trials: as `cuprof.analysis.trials` documents them.
        confidence: the level that the sweep asked for.
    """
    changed = {}
    for measure in MEASURES:
        counts = trials[f"{measure}_count"]
        few = [pd.notna(number) and is_mere_range(int(number), confidence) for number in counts]
        for end in ("low_ns", "high_ns"):
            changed[f"{measure}_{end}"] = (
                trials[f"{measure}_{end}"].astype(float).mask(pd.Series(few, trials.index, dtype=bool))
            )
    return trials.assign(**changed)


def has_interval(trial: Mapping[Any, Any], measure: str = "time") -> bool:
    """Return whether a trial's time has an interval of its median."""
    return bool(pd.notna(trial[f"{measure}_low_ns"]) and pd.notna(trial[f"{measure}_high_ns"]))


def few_samples(trial: Mapping[Any, Any], measure: str = "time") -> str:
    """Return "1 sample", "3 samples" for a time without an interval; nothing for one that has it, or for no time."""
    if pd.isna(trial[f"{measure}_ns"]) or pd.isna(trial[f"{measure}_count"]) or has_interval(trial, measure):
        return ""
    return count(int(trial[f"{measure}_count"]), "sample")


def level_text(confidence: float) -> str:
    """Return a level as a percentage for a sentence: "95 %"."""
    return f"{confidence * 100:g}\N{NO-BREAK SPACE}%"
