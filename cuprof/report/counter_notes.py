"""Notes on counters: their cache mode, values that are left out and why, and the values of each launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from cuprof.core.text import count, list_first
from cuprof.report.counter_sentences import format_counter
from cuprof.report.counters import WHY, OtherAlgorithm
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import shorten

HOT_ONLY = "profiled hot only"

NOTES = {
    "cold": "Counters are cold: the caches were emptied before every pass.",
    "hot": "Counters are hot: the caches were as the runs before left them; they belong beside hot times.",
}
MOST_NAMES = 6
MOST_LAUNCHES = 6
MOST_TRIALS = 3


def mode_note(study: Study) -> str:
    """Return which caches the counters were taken with, or the empty text without counters."""
    return NOTES.get(study.counters.mode, "")


def why_uncounted(study: Study, trial: StudyTrial, metric: str) -> str:
    """Return why a trial has no number of a counter: it is left out, or the profiler's own text; empty if unknown."""
    key, counters, row = (trial.id, metric), study.counters, study.counters.of(trial).get(metric)
    if key in counters.other_algorithm:
        return WHY
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
    others = _other_algorithm_notes(trials, study.counters.other_algorithm, metric)
    return (note, *others) if names else others


def collect_command(study: Study) -> str:
    """Return the command that collects counters of the study's trials, cold ones."""
    experiment = study.sweep.experiment
    selection = f"experiment={experiment}" if experiment else f"family={study.sweep.family}"
    return f"python -m cuprof ncu-collect {selection}"


def _other_algorithm_notes(
    trials: Iterable[StudyTrial], others: Mapping[tuple[int, str], OtherAlgorithm], metric: str = ""
) -> tuple[str, ...]:
    """Return a sentence for each contender among the trials with counters of another algorithm than was timed.

    Args:
        others: (trial_id, metric) → what shows it, as a study holds it.
        metric: the counter meant; empty asks for any.
    """
    of_trial = {trial: other for (trial, name), other in others.items() if metric in ("", name)}
    notes = []
    judged = [trial for trial in trials if trial.id in of_trial]
    for contender, group in grouped(judged, lambda trial: trial.contender).items():
        where = [f"{trial.problem_name} ({of_trial[trial.id]})" for trial in group]
        more = f" and {count(len(where) - MOST_TRIALS, 'more trial')}" if len(where) > MOST_TRIALS else ""
        notes.append(
            f"{shorten(contender)} was profiled with another algorithm than was timed at "
            f"{'; '.join(where[:MOST_TRIALS])}{more}; its counters are not compared there."
        )
    return tuple(notes)


def launches_text(study: Study, trial: StudyTrial, metric: str) -> str:
    """Return the metric launch by launch: "scalar_prods 9, sum_taps 1", or "first of 4 launches: 671" for one.

    Empty for a single launch and where every launch has the same value, which the trial's own value then is or sums.
    """
    rows = study.counters.launches.get((trial.id, metric), ())
    found = [(row.kernel, format_counter(row.value, row.text)) for row in rows]
    if len(found) < 2 or len({text for _, text in found}) == 1:
        return ""
    kernels = [(kernel, [text for _, text in group]) for kernel, group in groupby(found, key=lambda each: each[0])]
    if len(kernels) == 1:
        return f"first of {len(found)} launches: {found[0][1]}"
    if len(kernels) > MOST_LAUNCHES:
        return f"{len(found)} launches of {len({kernel for kernel, _ in kernels})} kernels"
    return ", ".join(f"{kernel} {_listed(texts)}" for kernel, texts in kernels)


def rollup_text(rule: str) -> str:
    """Return how launches became one value, for people: "mean of the launches, weighted by time"."""
    kind, _, weight = rule.partition(":")
    if kind == "mean" and weight:
        return f"mean of the launches, weighted by {'time' if 'time_duration' in weight else weight}"
    return {"max": "largest launch", "min": "smallest launch"}.get(kind, f"{kind} of the launches" if kind else "")


def _listed(texts: list[str]) -> str:
    if len(texts) > MOST_LAUNCHES:
        return f"{texts[0]}; {texts[1]}; … {texts[-1]}"
    return "; ".join(texts)
