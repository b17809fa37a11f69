"""The cache mode of a study's counters in words, and which trials' counters are left out, for it or another reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cuprof.analysis import library_profiles
from cuprof.analysis.quantities import count, shorten
from cuprof.analysis.study import Study

HOT_ONLY = "profiled hot only"

NOTES = {
    "cold": "Counters are cold: the caches were emptied before every pass.",
    "hot": "Counters are hot: the caches were as the runs before left them; they belong beside hot times.",
}
MOST_NAMES = 6


def mode_note(study: Study) -> str:
    """Return which caches the counters were taken with, or the empty text without counters."""
    return NOTES.get(study.cache_mode, "")


def why_uncounted(study: Study, trial: Mapping[Any, Any], metric: str) -> str:
    """Return why a stored counter of a trial is left out: it is hot, or of another algorithm; else the empty text."""
    key = trial["trial_id"], metric
    return library_profiles.WHY if key in study.other_algorithm else HOT_ONLY if key in study.hot_only else ""


def left_out_notes(study: Study, trials: pd.DataFrame, metric: str = "") -> tuple[str, ...]:
    """Return which of some trials have stored counters that are not compared, and why.

    Args:
        metric: the counter meant; empty asks for any.
    """
    others = library_profiles.other_algorithm_notes(trials, study.other_algorithm, metric)
    return (*filter(None, [hot_only_note(study, trials, metric)]), *others)


def hot_only_note(study: Study, trials: pd.DataFrame, metric: str = "") -> str:
    """Return which of some trials have hot counters only and so are left out, or the empty text.

    Args:
        metric: the counter meant; empty asks for trials without a cold counter of any metric.
    """
    hot = {trial for trial, name in study.hot_only if metric in ("", name)}
    if not metric and not study.counters.empty:
        hot -= set(study.counters["trial_id"])
    found = trials[trials["trial_id"].isin(hot)].groupby("contender", sort=False).size()
    if found.empty:
        return ""
    names = [f"{shorten(name)} ({count(number, 'trial')})" for name, number in found.items()]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (
        f"{HOT_ONLY.capitalize()}, so not compared with cold counters: {', '.join(names[:MOST_NAMES])}{more}; "
        f"{collect_command(study)} collects cold ones."
    )


def collect_command(study: Study) -> str:
    """Return the command that collects counters of the study's trials, cold ones."""
    experiment = study.sweep.experiment
    selection = f"experiment={experiment}" if experiment else f"family={study.sweep.family}"
    return f"python -m cuprof ncu-collect {selection}"
