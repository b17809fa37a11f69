"""Sentences on orders: the published order of the steps, and who wins at which problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from cuprof.analysis.quantities import count, format_ratio, shorten
from cuprof.analysis.ratio import Ratio
from cuprof.analysis.study import Study, best_of_tunables, extreme

CLOSE = 1.02
"""Two times nearer than this are called about equal, whatever the interval: clocks and temperature move by as much."""
MOST_NAMED = 4


def about_equal(ratio: Ratio) -> bool:
    """Return whether two times are too near, or too uncertain, to call one of them the faster."""
    return 1 / CLOSE < ratio.value < CLOSE or (ratio.known and not ratio.established)


def published_order(study: Study) -> list[str]:
    """Return whether each of the study's steps is faster here than the one before, and which are not."""
    rows = {row["variant"]: row for row in study.best.to_dict("records")}
    steps = [step for step in study.experiment.steps if step in rows]
    if len(steps) < 2:
        return []
    slower, equal, faster = [], [], []
    for before, after in pairwise(steps):
        ratio = study.ratio(rows[before], rows[after])
        if about_equal(ratio):
            equal.append(f"{after} ({format_ratio(ratio.value)}×)")
        elif ratio.value < 1:
            slower.append(f"{after} takes {format_ratio(1 / ratio.value)} times as long as {before}")
        else:
            faster.append(f"{after} ({format_ratio(ratio.value)}×)")
    missing = [step for step in study.experiment.steps if step not in rows]
    gaps = (
        f" ({', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no right, timed result here.)"
        if missing
        else ""
    )
    if not slower and not equal:
        where = f" at {study.best.iloc[0]['problem_name']}" if study.right["problem_label"].nunique() > 1 else ""
        order = f"The {len(steps)} steps are in the published order{where}"
        return [f"{order}: each is faster than the one before.{gaps}"]
    level = f"{', '.join(equal)} {'is' if len(equal) == 1 else 'are'} about as fast as the step before" if equal else ""
    if slower:
        details = "; ".join(filter(None, [*slower, level]))
        return [f"The published order of the steps does not hold everywhere: {details}.{gaps}"]
    gains = f"only {', '.join(faster)} {'is' if len(faster) == 1 else 'are'} clearly faster; " if faster else ""
    return [f"No step is slower than the one before, but {gains}{level}.{gaps}"]


def winners(study: Study) -> list[str]:
    """Return which variant is the fastest at how many problems, and for a study of two steps where each wins."""
    best = best_of_tunables(study.right)
    if best.empty or best["problem_label"].nunique() < 2:
        return []
    groups: dict[tuple[str, ...], list[str]] = {}
    problems = 0
    for _, rows in best.groupby("problem_label", sort=False):
        problems += 1
        groups.setdefault(_fastest(study, rows), []).append(str(rows.iloc[0]["problem_name"]))
    sentences = [f"Over the {count(problems, 'problem')} measured, the fastest is {_tally(groups, problems)}."]
    steps = study.experiment.steps
    if len(steps) == 2:
        sentences += _duel(best, *steps)
    return sentences


def _fastest(study: Study, rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the contenders at one problem that are the fastest or about as fast, in the family's order."""
    first = extreme(rows, "time_ns")
    level = [
        row["contender"]
        for row in rows.to_dict("records")
        if row["trial_id"] == first["trial_id"] or about_equal(study.ratio(row, first))
    ]
    return tuple(map(str, level))


def _tally(groups: Mapping[tuple[str, ...], Sequence[str]], problems: int) -> str:
    """Return who is the fastest, alone or level with others, at how many problems and which.

    Args:
        groups: contenders that are level → names of the problems at which they are the fastest.
    """
    parts = []
    for contenders, names in sorted(groups.items(), key=lambda each: -len(each[1])):
        # a label of several axes holds commas itself
        where = f" ({'; '.join(names)})" if len(names) <= MOST_NAMED and len(names) < problems else ""
        first, *others = (shorten(contender) for contender in contenders)
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        level = f" level with {_listed(others[:MOST_NAMED], last=not more)}{more}" if others else ""
        parts.append(f"{first}{level} at {len(names) if len(names) < problems else 'all of them'}{where}")
    return "; ".join(parts)


def _listed(names: Sequence[str], *, last: bool) -> str:
    """Return "a, b and c", or "a, b, c" where more follow."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if last and len(names) > 1 else ", ".join(names)


def _duel(best: pd.DataFrame, before: str, after: str) -> list[str]:
    """Return where the second step is the faster one and where the first still is, by what factors."""
    times: dict[str, dict[str, Mapping[Any, Any]]] = {}
    for row in best[best["variant"].isin([before, after])].to_dict("records"):
        times.setdefault(str(row["problem_name"]), {})[str(row["variant"])] = row
    both = {
        name: rows[before]["time_ns"] / rows[after]["time_ns"]
        for name, rows in times.items()
        if {before, after} <= {*rows}
    }
    if len(both) < 2:
        return []
    won = {name: ratio for name, ratio in both.items() if ratio >= CLOSE}
    lost = {name: ratio for name, ratio in both.items() if ratio <= 1 / CLOSE}
    text = f"{after} is faster than {before} at {len(won)} of {count(len(both), 'problem')}"
    if won:
        ends = dict.fromkeys(format_ratio(end(won.values())) for end in (min, max))
        text += f" ({' to '.join(ends)} times as fast)"
    if lost:
        listed = "; ".join(
            f"{name} ({format_ratio(1 / ratio)} times as long)" for name, ratio in list(lost.items())[:6]
        )
        text += f", and slower at {listed}"
    return [f"{text}."]
