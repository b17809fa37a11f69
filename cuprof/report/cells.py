"""Values of trials by facts ("variant", "problem.n", "tune.block"): what tables and own figures have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cuprof.ncu.metrics import heading_of
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import QUANTITIES, Dimension, point_label

Key = tuple[Any, ...]
APART = "another session"
"""Shown in place of a speed-up between trials of two sweeps."""
NAMES = {"variant": "contender", "device": "device", "problem": "problem_name"}


@dataclass(frozen=True)
class Candidate:
    """A trial with one of its values.

    Args:
        value: in base units, None unless the trial is right and the value known.
        reason: why the value of a right trial is missing, where that is known.
        choice: the tunables that it was chosen for and that are no facts of the table, as text.
        doubt: a reason to mistrust a speed-up or a time: a wide interval, an earlier sweep.
    """

    trial: StudyTrial
    value: float | None
    reason: str = ""
    choice: str = ""
    doubt: str = ""


def values_of(trials: pd.DataFrame, fact: str) -> list[Any]:
    """Return the value that each trial has of one fact, None where it has none."""
    head, _, tail = fact.partition(".")
    if not tail:
        return list(trials[NAMES[fact]])
    return [point.get(tail) for point in trials["problem" if head == "problem" else "tunables"]]


def fact_label(fact: str) -> str:
    """Return the heading of a fact: "problem.n" reads "n"."""
    return fact.partition(".")[2] or fact


def keep(trials: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials that agree with every fact; a trial without a tunable is not excluded by it.

    A variant that ran on several devices is several contenders; its plain name means all of them.
    """
    for fact, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        allowed = [*values, None] if fact.startswith("tune.") else values
        fits = np.array([each in allowed for each in values_of(trials, fact)], dtype=bool)
        trials = trials[fits | trials["variant"].isin(values) if fact == "variant" else fits]
    return trials


def choose(
    study: Study, where: Mapping[str, Any], value: str, facts: Sequence[str], against: str = ""
) -> dict[Key, Candidate]:
    """Return what to show for each combination of facts: the fastest trial with a value, else the first.

    Without a value, one that knows the reason goes before the others. Variants come as `where` lists them.

    Args:
        where: facts that trials must have.
        value: the name of a quantity (`cuprof.report.units`) or of a counter.
        against: the variant that speedups are against; empty for the baseline.
    """
    kept, listed = keep(study.frame, where), where.get("variant")
    if isinstance(listed, list):
        names = kept["contender"].where(kept["contender"].isin(listed), kept["variant"])
        kept = kept.iloc[np.argsort([listed.index(name) for name in names], kind="stable")]
    values = _values(study, kept, value, against)
    columns = [values_of(kept, fact) for fact in facts]
    keys = list(zip(*columns, strict=True)) if facts else [()] * len(kept)
    named = {fact.partition(".")[2] for fact in facts if fact.startswith("tune.")}
    chosen = {}
    for key, group in grouped(zip(keys, kept.index, strict=True), lambda each: each[0]).items():
        places = [place for _, place in group]
        valued = [place for place in places if place in values]
        if valued:
            best = valued[int(np.argmin(kept["sure_ns"].loc[valued]))] if len(valued) > 1 else valued[0]
            chosen[key] = best, _choice(kept["tunables"].loc[valued], kept["tunables"].loc[best], named)
        else:
            chosen[key] = _first_with_reason(study, places, value, against), ""
    trials = study.rows(study.frame.loc[[place for place, _ in chosen.values()]])
    return {
        key: _candidate(study, trial, value, values.get(place), choice, against)
        for trial, (key, (place, choice)) in zip(trials, chosen.items(), strict=True)
    }


def _values(study: Study, kept: pd.DataFrame, value: str, against: str) -> dict[int, float]:
    """Return the value of each right trial that has one, by its place."""
    right = kept[kept["is_right"]]
    if value in QUANTITIES and QUANTITIES[value].attribute:
        return dict(right[QUANTITIES[value].attribute].dropna())
    found: Iterable[float | None]
    if value in QUANTITIES:
        trials = study.rows(right)
        if value == "speedup":
            study.foresee_speedups(trials, against)
        found = [(study.speedup if value == "speedup" else study.total_speedup)(trial, against) for trial in trials]
    else:
        found = [study.counters.value_of(key, value) for key in right["id"]]
    return {place: each for place, each in zip(right.index, found, strict=True) if each is not None}


def _choice(tunables: pd.Series[Any], best: Mapping[str, Any], named: set[str]) -> str:
    """Return the tunables of the best in which others differ, but those that are named elsewhere."""
    differing = {name for name in {*best} - named if len({each.get(name) for each in tunables}) > 1}
    return point_label({name: value for name, value in best.items() if name in differing})


def _first_with_reason(study: Study, places: list[int], value: str, against: str) -> int:
    """Return the first of the trials that says why it has no value; the first of all where none does."""
    if value in QUANTITIES and value != "speedup":
        return places[0]
    trials = zip(places, study.rows(study.frame.loc[places]), strict=True)
    return next((place for place, trial in trials if _reason(study, trial, value, against)), places[0])


def _reason(study: Study, trial: StudyTrial, value: str, against: str) -> str:
    """Return why a right trial has no value, where that is known."""
    if not trial.is_right:
        return ""
    if value == "speedup":
        base = study.baseline_of(trial, against or study.baseline)
        return APART if base is not None and study.are_apart(base, trial) else ""
    return "" if value in QUANTITIES else study.counters.why_missing(trial.id, value)


def _candidate(
    study: Study, trial: StudyTrial, value: str, found: float | None, choice: str, against: str
) -> Candidate:
    doubt = ""
    if trial.is_right and value == "speedup" and found is not None:
        base = study.baseline_of(trial, against or study.baseline)
        doubt = doubt_of(base, trial) if base else ""
    elif trial.is_right and value in QUANTITIES and value != "total_speedup":
        doubt = study.age(trial)
    return Candidate(trial, found, _reason(study, trial, value, against), choice, doubt)


def doubt_of(base: StudyTrial, new: StudyTrial) -> str:
    """Return "±58 %", the wider of two intervals where it is too wide for a speed-up without a mark."""
    return max(base, new, key=lambda trial: trial.half_width).doubt


def describe(study: Study, value: str) -> tuple[str, str, Dimension]:
    """Return heading, fixed unit (empty where it is chosen from the data) and dimension of a quantity or counter."""
    if value in QUANTITIES:
        return QUANTITIES[value].heading, "", QUANTITIES[value].dimension
    return heading_of(value), study.counters.unit_of(value), "plain"


def ordered(keys: Iterable[Key]) -> list[Key]:
    """Return distinct keys in order of appearance; where a position holds numbers only, sorted by them."""
    unique = list(dict.fromkeys(keys))
    for position in reversed(range(len(unique[0]) if unique else 0)):
        values = [key[position] for key in unique if key[position] is not None]
        if values and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            unique.sort(key=lambda key: (key[position] is not None, key[position] or 0))
        else:
            first = {value: i for i, value in reversed(list(enumerate(key[position] for key in unique)))}
            unique.sort(key=lambda key: first[key[position]])
    return unique
