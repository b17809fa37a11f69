"""Facts: the names by which a study speaks of trials ("variant", "problem.n", "tune.block")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cuprof.point import format_coordinate

PLAIN_BELOW = 2**14
"""Powers of two from here on are written as such; smaller ones are numbers that people know."""

Facts = Mapping[str, Any]
FACTS_HELP = "allowed are variant, device, problem, problem.AXIS, tune.NAME"


def is_fact(name: str) -> bool:
    """Return whether a name is one that a study can speak of trials with."""
    head, dot, tail = name.partition(".")
    return name in ("variant", "device", "problem") or (head in ("problem", "tune") and bool(dot) and bool(tail))


def fact_of(row: Mapping[Any, Any], fact: str) -> Any:
    """Return what a trial (a row of the trials frame) says of one fact, None where it says nothing.

    Args:
        row: has `contender`, `device`, `problem_name`, `problem` and `tunables` (mappings).
        fact: a name that `is_fact` accepts.
    """
    head, _, tail = fact.partition(".")
    if tail:
        return row["problem" if head == "problem" else "tunables"].get(tail)
    return row[{"variant": "contender", "device": "device", "problem": "problem_name"}[fact]]


def keep(trials: pd.DataFrame, where: Facts) -> pd.DataFrame:
    """Return the trials that agree with every fact; a trial without a tunable is not excluded by it."""
    chosen = [_agrees(row, where) for row in trials.to_dict("records")]
    return trials[pd.Series(chosen, index=trials.index, dtype=bool)]


def fact_label(fact: str) -> str:
    """Return the heading of a fact: "problem.n" reads "n"."""
    return fact.partition(".")[2] or fact


def value_label(value: Any) -> str:
    """Return a fact's value as text for people, 16777216 as 2^24."""
    if isinstance(value, int) and value < PLAIN_BELOW:
        return str(value)
    return "–" if value is None else format_coordinate(value)


def point_label(point: Mapping[str, Any]) -> str:
    """Return coordinates as text for people: "n=2^24, dtype=float32"."""
    return ", ".join(f"{name}={value_label(value)}" for name, value in point.items())


def _agrees(row: Mapping[Any, Any], where: Facts) -> bool:
    for fact, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        actual = fact_of(row, fact)
        if actual is None and fact.startswith("tune."):
            continue
        # a variant that ran on several devices is several contenders; its plain name means all of them
        if actual not in values and not (fact == "variant" and row["variant"] in values):
            return False
    return True
