"""Sentences on orders: the published order of the steps, and who wins at which problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from cuprof.core.text import count
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, best_of_tunables, by_sure_time, grouped
from cuprof.report.units import format_ratio, shorten
from cuprof.statistics import Verdict

MOST_NAMED = 4
MOST_LOST = 6


def published_order(study: Study) -> list[str]:
    """Return whether each of the study's steps is faster here than the one before, and which are not."""
    trials = {trial.variant: trial for trial in study.best}
    steps = [step for step in study.experiment.steps if step in trials]
    if len(steps) < 2:
        return []
    said: dict[Verdict, list[str]] = {verdict: [] for verdict in Verdict}
    for before, after in pairwise(steps):
        if study.are_apart(trials[before], trials[after]):
            return []
        ratio = study.ratio(trials[before], trials[after]) or 1.0
        verdict = study.verdict(trials[before], trials[after]) or Verdict.UNDECIDED
        slower = f"{after} takes {format_ratio(ratio)} times as long as {before}"
        said[verdict].append(slower if verdict is Verdict.SLOWER else f"{after} ({format_ratio(1 / ratio)}×)")
    missing = [step for step in study.experiment.steps if step not in trials]
    gaps = (
        f" ({', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no right, timed result here.)"
        if missing
        else ""
    )
    if len(said[Verdict.FASTER]) == len(steps) - 1:
        where = f" at {study.best[0].problem_name}" if len({trial.problem for trial in study.right}) > 1 else ""
        order = f"The {len(steps)} steps are in the published order{where}"
        return [f"{order}: each is faster than the one before.{gaps}"]
    level = [
        f"{', '.join(said[verdict])} {'is' if len(said[verdict]) == 1 else 'are'} {words} the step before"
        for verdict, words in ((Verdict.SAME, "as fast as"), (Verdict.UNDECIDED, "not told apart from"))
        if said[verdict]
    ]
    if said[Verdict.SLOWER]:
        details = "; ".join([*said[Verdict.SLOWER], *level])
        return [f"The published order of the steps does not hold everywhere: {details}.{gaps}"]
    faster = said[Verdict.FASTER]
    gains = f"only {', '.join(faster)} {'is' if len(faster) == 1 else 'are'} faster; " if faster else ""
    return [f"No step is slower than the one before, but {gains}{'; '.join(level)}.{gaps}"]


def winners(study: Study) -> list[str]:
    """Return which variant is the fastest at how many problems, and for a study of two steps where each wins."""
    best = best_of_tunables(study.right)
    problems = grouped(sorted(best, key=lambda trial: trial.order), lambda trial: trial.problem)
    if len(problems) < 2:
        return []
    groups: dict[str, list[str]] = {}
    for trials in problems.values():
        groups.setdefault(_fastest(study, trials), []).append(trials[0].problem_name)
    parts = []
    for who, names in sorted(groups.items(), key=lambda each: -len(each[1])):
        # a label of several axes holds commas itself
        where = f" ({'; '.join(names)})" if len(names) <= MOST_NAMED and len(names) < len(problems) else ""
        parts.append(f"{who} at {len(names) if len(names) < len(problems) else 'all of them'}{where}")
    sentences = [f"Over the {count(len(problems), 'problem')} measured, the fastest is {'; '.join(parts)}."]
    steps = study.experiment.steps
    return [*sentences, *(_duel(study, problems.values(), *steps) if len(steps) == 2 else [])]


def _fastest(study: Study, trials: Sequence[StudyTrial]) -> str:
    """Return the fastest variant at one problem: "a", "a level with b", "a, not told apart from b,"."""
    first = min(trials, key=by_sure_time)
    verdicts = {trial: Verdict.SAME if trial is first else study.verdict(first, trial) for trial in trials}
    level, open_ = (
        [shorten(trial.contender) for trial, verdict in verdicts.items() if verdict is wanted]
        for wanted in (Verdict.SAME, Verdict.UNDECIDED)
    )
    text = f"{level[0]} level with {_listed(level[1:])}" if len(level) > 1 else level[0]
    return f"{text}, not told apart from {_listed(open_)}," if open_ else text


def _listed(names: Sequence[str]) -> str:
    """Return "a, b and c", or "a, b, c, d and 2 more"."""
    rest = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    *head, last = [*names[:MOST_NAMED], *rest]
    return f"{', '.join(head)} and {last}" if head else last


def _duel(study: Study, problems: Iterable[Sequence[StudyTrial]], before: str, after: str) -> list[str]:
    """Return where the second step is the faster one and where the first still is, by what factors."""
    both = []
    for trials in problems:
        named = {trial.variant: trial for trial in trials}
        if {before, after} <= {*named}:
            both.append((named[before], named[after]))
    if len(both) < 2:
        return []
    ratios: dict[Verdict, list[tuple[str, float]]] = {Verdict.FASTER: [], Verdict.SLOWER: []}
    for base, new in both:
        verdict, ratio = study.verdict(base, new), study.ratio(base, new)
        if verdict and verdict in ratios and ratio:
            ratios[verdict].append((new.problem_name, ratio))
    won, lost = ratios[Verdict.FASTER], ratios[Verdict.SLOWER]
    text = f"{after} is faster than {before} at {len(won)} of {count(len(both), 'problem')}"
    if won:
        ends = dict.fromkeys(format_ratio(end(1 / ratio for _, ratio in won)) for end in (min, max))
        text += f" ({' to '.join(ends)} times as fast)"
    if lost:
        listed = "; ".join(f"{name} ({format_ratio(ratio)} times as long)" for name, ratio in lost[:MOST_LOST])
        text += f", and slower at {listed}"
    return [f"{text}."]
