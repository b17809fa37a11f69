"""Values of trials by facts ("variant", "problem.n", "tune.block"): what tables and own figures have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cuprof.core.point import Point
from cuprof.ncu.metrics import heading_of
from cuprof.report.counter_notes import why_uncounted
from cuprof.report.published import PublishedValue, whole
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, by_sure_time, grouped
from cuprof.report.units import QUANTITIES, Dimension, point_label

Key = tuple[Any, ...]
APART = "another session"
"""Shown in place of a speed-up between trials of two sweeps."""


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


def fact_of(trial: StudyTrial, fact: str) -> Any:
    """Return a trial's value of one fact, None where it has none."""
    head, _, tail = fact.partition(".")
    if tail:
        return (trial.problem if head == "problem" else trial.tunables).get(tail)
    return {"variant": trial.contender, "device": trial.device, "problem": trial.problem_name}[fact]


def fact_label(fact: str) -> str:
    """Return the heading of a fact: "problem.n" reads "n"."""
    return fact.partition(".")[2] or fact


def keep(trials: Iterable[StudyTrial], where: Mapping[str, Any]) -> list[StudyTrial]:
    """Return the trials that agree with every fact; a trial without a tunable is not excluded by it."""
    return [trial for trial in trials if all(_agrees(trial, *each) for each in where.items())]


def _agrees(trial: StudyTrial, fact: str, wanted: Any) -> bool:
    values = wanted if isinstance(wanted, list) else [wanted]
    actual = fact_of(trial, fact)
    if actual in values or (actual is None and fact.startswith("tune.")):
        return True
    # a variant that ran on several devices is several contenders; its plain name means all of them
    return fact == "variant" and trial.variant in values


def candidates(study: Study, where: Mapping[str, Any], value: str, against: str = "") -> list[Candidate]:
    """Return the trials that agree with `where`, each with its value, in the order in which `where` lists variants.

    Args:
        value: the name of a quantity (`cuprof.report.units`) or of a counter.
        against: the variant that speedups are against; empty for the baseline.
    """
    trials, listed = keep(study.trials, where), where.get("variant")
    if isinstance(listed, list):
        trials.sort(key=lambda trial: listed.index(trial.contender if trial.contender in listed else trial.variant))
    return [_candidate(study, trial, value, against) for trial in trials]


def _candidate(study: Study, trial: StudyTrial, value: str, against: str) -> Candidate:
    if not trial.is_right:
        return Candidate(trial, None)
    if value == "speedup":
        return _speedup(study, trial, against)
    if value == "total_speedup":
        return Candidate(trial, study.total_speedup(trial, against))
    if value in QUANTITIES:
        return Candidate(trial, getattr(trial, QUANTITIES[value].attribute), doubt=study.age(trial))
    return Candidate(trial, study.counters.value_of(trial, value), why_uncounted(study, trial, value))


def _speedup(study: Study, trial: StudyTrial, against: str) -> Candidate:
    base = study.baseline_of(trial, against or study.baseline)
    if base is not None and study.are_apart(base, trial):
        return Candidate(trial, None, APART)
    return Candidate(trial, study.speedup(trial, against), doubt=doubt_of(base, trial) if base else "")


def doubt_of(base: StudyTrial, new: StudyTrial) -> str:
    """Return "±58 %", the wider of two intervals where it is too wide for a speed-up without a mark."""
    return max(base, new, key=lambda trial: trial.half_width or 0.0).doubt


def ratio_notes(notes: Iterable[str]) -> list[str]:
    """Return what the small print below speed-ups means, of those kinds that there are."""
    shown = set(", ".join(notes).split(", "))
    said = []
    if shown & {"same", "undecided"}:
        said.append("Below a ratio: the verdict of cuprof compare where it is neither faster nor slower.")
    if any(each.startswith("±") for each in shown):
        said.append("± below a ratio: the interval of one of its two times reaches that far from the median.")
    if APART in shown:
        said.append(
            "Another session: the two were measured by two sweeps, between which the machine may have changed; "
            "retry=all measures them together."
        )
    return said


def describe(study: Study, value: str) -> tuple[str, str, Dimension]:
    """Return heading, fixed unit (empty where it is chosen from the data) and dimension of a quantity or counter."""
    if value in QUANTITIES:
        return QUANTITIES[value].heading, "", QUANTITIES[value].dimension
    return heading_of(value), study.counters.unit_of(value), "plain"


def choose(every: Iterable[Candidate], facts: Sequence[str]) -> dict[Key, Candidate]:
    """Return, for each combination of facts, the candidate to show: the fastest one with a value, else the first.

    Without a value, one that knows the reason goes before the others.
    """
    named = [fact.partition(".")[2] for fact in facts if fact.startswith("tune.")]
    chosen = {}
    for key, group in grouped(every, lambda each: tuple(fact_of(each.trial, fact) for fact in facts)).items():
        valued = [each for each in group if each.value is not None]
        best = min(valued, key=lambda each: by_sure_time(each.trial)) if valued else None
        best = best or min(group, key=lambda each: not each.reason)
        differing = {
            name: value
            for name, value in best.trial.tunables.items()
            if name not in named and len({each.trial.tunables.get(name) for each in valued}) > 1
        }
        chosen[key] = replace(best, choice=point_label(differing))
    return chosen


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


def list_published(
    study: Study, table: str, measure: str, trial: StudyTrial, facts: Iterable[str], *, reference: str = ""
) -> tuple[PublishedValue, ...]:
    """Return the published values of this trial, comparing only the tunables that are among `facts`.

    A value that does not state one of these tunables is left out: one number does not hold for every column.

    There is one value, or one for each kernel where the kernels' counters were published separately.

    Args:
        reference: for the measure "speedup": the variant whose published time is divided by this one's; where no times
            are published, a speedup that is.
    """
    if measure == "speedup":
        speedup = _published_speedup(study, table, trial, tuple(facts), reference or study.baseline)
        if speedup:
            return (speedup,)
    names = [fact.partition(".")[2] for fact in facts if fact.startswith("tune.")]
    tunables = {name: trial.tunables.get(name) for name in names}
    found: dict[str, PublishedValue] = {}
    for value in study.published:
        if value.table != table or value.measure != measure:
            continue
        if any(tunables[name] is not None and name not in value.tunables for name in names):
            continue
        stated = {name for name in value.tunables if trial.tunables.get(name) is not None}
        fits = value.fits(trial.variant, trial.problem, {**trial.tunables, **tunables})
        if fits and stated == set(value.tunables):
            found.setdefault(value.kernel, value)
    return tuple(found.values())


def _published_speedup(
    study: Study, table: str, trial: StudyTrial, facts: tuple[str, ...], reference: str
) -> PublishedValue | None:
    """Return the ratio of two published times, where both are published for this problem."""
    of_reference = replace(trial, variant=reference, tunables=Point())
    after, before = (whole(list_published(study, table, "time", each, facts)) for each in (trial, of_reference))
    if after is None or before is None or not after.value or before.value is None or trial.variant == reference:
        return None
    return replace(after, measure="speedup", unit="x", dimension="ratio", value=before.value / after.value, text="")
