"""The cache mode of a study's counters in words, and which trials' counters are left out, for it or another reason."""

from __future__ import annotations

from collections.abc import Sequence

from cuprof.core.text import count, list_first
from cuprof.report import library_profiles
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import shorten

HOT_ONLY = "profiled hot only"

NOTES = {
    "cold": "Counters are cold: the caches were emptied before every pass.",
    "hot": "Counters are hot: the caches were as the runs before left them; they belong beside hot times.",
}
MOST_NAMES = 6


def mode_note(study: Study) -> str:
    """Return which caches the counters were taken with, or the empty text without counters."""
    return NOTES.get(study.counters.mode, "")


def why_uncounted(study: Study, trial: StudyTrial, metric: str) -> str:
    """Return why a trial has no number of a counter: it is left out, or the profiler's own text; empty if unknown."""
    key, counters, row = (trial.id, metric), study.counters, study.counters.of(trial).get(metric)
    if key in counters.other_algorithm:
        return library_profiles.WHY
    return HOT_ONLY if key in counters.hot_only else (row.text if row else "") or ""


def left_out_notes(study: Study, trials: Sequence[StudyTrial], metric: str = "") -> tuple[str, ...]:
    """Return which of some trials have stored counters that are not compared, and why.

    Args:
        metric: the counter meant; empty asks for any, and for trials without a cold counter of any.
    """
    hot = {trial for trial, name in study.counters.hot_only if metric in ("", name)}
    hot_only = [trial for trial in trials if trial.id in hot and (metric or not study.counters.of(trial))]
    groups = grouped(hot_only, lambda trial: trial.contender)
    names = [f"{shorten(name)} ({count(len(group), 'trial')})" for name, group in groups.items()]
    note = (
        f"{HOT_ONLY.capitalize()}, so not compared with cold counters: {list_first(names, MOST_NAMES)}; "
        f"{collect_command(study)} collects cold ones."
    )
    others = library_profiles.other_algorithm_notes(trials, study.counters.other_algorithm, metric)
    return (note, *others) if names else others


def collect_command(study: Study) -> str:
    """Return the command that collects counters of the study's trials, cold ones."""
    experiment = study.sweep.experiment
    selection = f"experiment={experiment}" if experiment else f"family={study.sweep.family}"
    return f"python -m cuprof ncu-collect {selection}"
