"""Facts: the names by which a study speaks of trials ("variant", "problem.n", "tune.block")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cuprof.report.trials import StudyTrial

Facts = Mapping[str, Any]


def fact_of(trial: StudyTrial, fact: str) -> Any:
    """Return what a trial says of one fact (a name that `is_fact` accepts), None where it says nothing."""
    head, _, tail = fact.partition(".")
    if tail:
        return (trial.problem if head == "problem" else trial.tunables).get(tail)
    return {"variant": trial.contender, "device": trial.device, "problem": trial.problem_name}[fact]


def keep(trials: Iterable[StudyTrial], where: Facts) -> list[StudyTrial]:
    """Return the trials that agree with every fact; a trial without a tunable is not excluded by it."""
    return [trial for trial in trials if _agrees(trial, where)]


def fact_label(fact: str) -> str:
    """Return the heading of a fact: "problem.n" reads "n"."""
    return fact.partition(".")[2] or fact


def _agrees(trial: StudyTrial, where: Facts) -> bool:
    for fact, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        actual = fact_of(trial, fact)
        if actual is None and fact.startswith("tune."):
            continue
        # a variant that ran on several devices is several contenders; its plain name means all of them
        if actual not in values and not (fact == "variant" and trial.variant in values):
            return False
    return True
