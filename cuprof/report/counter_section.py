"""Counters before and after: for each pair of variants, what Nsight Compute counted and what it advises."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from cuprof.backends.registry import find_spec
from cuprof.core.point import Point
from cuprof.core.text import count
from cuprof.ncu import BACKENDS
from cuprof.ncu.metrics import METRICS, TOPICS, find_kind, find_metric, heading_of, list_telling, listing_order
from cuprof.report.counters import OTHER_ALGORITHM
from cuprof.report.study import Study
from cuprof.report.tables import Cell, Column, Row, Table
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_sure_time, grouped
from cuprof.report.units import Scale, choose_scale, format_counter, format_ratio, shorten

WORDS = "counters.txt"
BYTES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
MOST_PAIRS = 16
MOST_CHANGES = 20
"""Counters of a pair that are shown at once; the others are behind a click."""
FOLD = re.compile(r"\.(sum|avg|max|min)(?=\.|$)")
"""How a metric says what it makes of the units' values; several of one metric are one row."""

_LINK = re.compile(r"@(url|section|source)[^@]*@|\s+")


@dataclass(frozen=True)
class CounterChange:
    """One counter of a pair; `before_launches` and `after_launches` list the launches where they differ.

    Args:
        others: the changes of the same metric's other folds: "avg × 2.00".
    """

    metric: str
    unit: str
    before: str
    after: str
    change: str
    sentence: str
    rollup: str = ""
    before_launches: str = ""
    after_launches: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observation:
    """A piece of Nsight's own advice about one kernel of one variant."""

    variant: str
    kernel: str
    rule: str
    severity: str
    text: str


@dataclass(frozen=True)
class CounterPair:
    """Two variants at one problem: their counters and Nsight's advice.

    Args:
        topics: (topic, what changed in words): the grid, DRAM traffic, shared memory, coalescing, …
        changes: the most telling counters that changed or that only one of them has; `further` are the others.
        same: the others, as text: "launch__grid_dim_z 1".
        open: it is the pair with the greatest gain at the first pair's problem, which a page opens.
    """

    before: str
    after: str
    problem: str
    setting: str
    speedup: float | None
    topics: tuple[tuple[str, str], ...]
    changes: tuple[CounterChange, ...]
    same: tuple[str, ...]
    observations: tuple[Observation, ...]
    open: bool = False
    further: tuple[CounterChange, ...] = ()


@dataclass(frozen=True)
class CounterSection:
    """Everything the page says of counters.

    Args:
        how: the command that collects counters, where there are no pairs and it would bring some; else empty.
    """

    pairs: tuple[CounterPair, ...]
    notes: tuple[str, ...]
    how: str
    overview: Table | None = None


def counter_section(study: Study) -> CounterSection:
    """Return before → after for every right variant that has counters at the same problem as what it follows.

    A step of the study is compared with the step before it, every other variant with the baseline. Trials without a
    counter of the study's cache mode are in no pair, nor are a library's that were profiled with another algorithm than
    was timed; notes name them.
    """
    frame = study.frame
    profiled, befores = _profiled(study)
    backends = {*frame["backend"][frame["variant"] == study.baseline]}
    unprofiled = min(backends) if backends and not backends & {*BACKENDS} else ""
    chosen = _choose_pairs(study, profiled, befores)
    spec = find_spec(unprofiled) if unprofiled else None
    names = list(dict.fromkeys(trial.contender for trial in profiled))
    notes = say(WORDS, "pairs", study, spec.title if spec else unprofiled, bool(befores), names, bool(chosen))
    notes += [*mode_notes(study), *left_out_notes(study, frame), *say(WORDS, "more_pairs", len(chosen), MOST_PAIRS)]
    pairs = [_pair(study, *pair) for pair in chosen[:MOST_PAIRS]]
    # at the overview's problem, so that one reading leads into the other
    gains = [(pair.problem == pairs[0].problem) * (pair.speedup or 0.0) for pair in pairs]
    opened = tuple(replace(pair, open=i == gains.index(max(gains))) for i, pair in enumerate(pairs))
    would_help = not unprofiled or (not profiled and frame["backend"].isin(BACKENDS).any())
    how = collect_command(study) if would_help and not opened else ""
    if unprofiled and not befores:
        right = [trial for trial in profiled if not trial.is_expected_wrong]
        right.sort(key=lambda trial: trial.problem != study.reference)
        overview = _overview(study, _at_one_problem(study, right), fewest=1)
    else:
        overview = _overview(study, _at_one_problem(study, [trial for pair in chosen for trial in pair]))
    return CounterSection(opened, tuple(notes), how, overview)


def list_pairs(study: Study) -> list[tuple[StudyTrial, StudyTrial]]:
    """Return before and after of every pair that the page compares, the study's steps first."""
    return _choose_pairs(study, *_profiled(study))


def _profiled(study: Study) -> tuple[list[StudyTrial], list[StudyTrial]]:
    """Return the trials that have counters, and those of the baseline among them."""
    profiled = study.rows(study.frame[study.frame["id"].isin(list(study.counters.of))])
    return profiled, [trial for trial in profiled if trial.variant == study.baseline]


def collect_command(study: Study) -> str:
    """Return the command that collects counters of the study's trials, cold ones."""
    return f"python -m cuprof ncu-collect {study.sweep.selection}"


def mode_notes(study: Study) -> list[str]:
    """Return which caches the counters were taken with; nothing without counters."""
    return say(WORDS, "mode", study.counters.mode)


def left_out_notes(study: Study, trials: pd.DataFrame, metric: str = "") -> list[str]:
    """Return which of some trials have stored counters that are not compared, and why.

    Args:
        trials: rows of the study's frame.
        metric: the counter meant; empty asks for any, and for trials without a cold counter of any.
    """
    counters = study.counters
    hot = {trial for trial, name in counters.hot_only if metric in ("", name)} - ({} if metric else counters.of).keys()
    others = {trial: other for (trial, name), other in counters.other_algorithm.items() if metric in ("", name)}
    numbers = trials["contender"][trials["id"].isin(hot)].value_counts(sort=False)
    names = [f"{shorten(name)} ({count(number, 'trial')})" for name, number in numbers.items()]
    judged = grouped(study.rows(trials[trials["id"].isin(others)]), lambda trial: trial.contender)
    places = [
        (contender, [f"{trial.problem_name} ({others[trial.id]})" for trial in group])
        for contender, group in judged.items()
    ]
    return say(WORDS, "left_out", names, places, collect_command(study))


def describe_change(metric: str, before: float | None, after: float | None) -> str:
    """Return one sentence on what the change of a counter means; empty where one of the values is missing.

    Which sentence a metric gets is part of what its profiler knows of it (`cuprof.ncu.metrics`). A name that no kind
    fits gets the plain change.

    Args:
        metric: the profiler's name.
        before, after: values of the two trials in the metric's own unit.
    """
    if not _are_numbers(before, after):
        return ""
    kind = find_kind(metric)
    return say_once(WORDS, kind.sentence if kind else "plain", kind, before, after)


def format_change(before: float | None, after: float | None) -> str:
    """Return the change of a counter as text: "÷ 4.00", "× 1.21", "=", "0 → 256"."""
    if before is None or after is None or not _are_numbers(before, after):
        return "–"
    if before == after:
        return "="
    if before == 0 or after == 0 or (before < 0) != (after < 0):
        return f"{'+' if after > before else '−'}{format_counter(abs(after - before))}"
    ratio = after / before
    if abs(ratio - 1) < 0.0005:  # three decimals would show no change
        return "≈"
    return f"×\N{NO-BREAK SPACE}{format_ratio(ratio)}" if ratio > 1 else f"÷\N{NO-BREAK SPACE}{format_ratio(1 / ratio)}"


def explain(texts: Iterable[str]) -> str:
    """Return what the texts of undefined ratios mean, each meaning once; empty for any other texts."""
    meanings = {metric.absence: metric.exempt for metric in METRICS.values() if metric.exempt}
    return " ".join(dict.fromkeys(meanings[text] for text in texts if text in meanings))


def rollup_text(rule: str) -> str:
    """Return how launches became one value, for people: "mean of the launches, weighted by time"."""
    kind, _, weight = rule.partition(":")
    if kind == "mean" and weight:
        return f"mean of the launches, weighted by {'time' if 'time_duration' in weight else weight}"
    return {"max": "largest launch", "min": "smallest launch"}.get(kind, f"{kind} of the launches" if kind else "")


def _are_numbers(*values: float | None) -> bool:
    return all(value is not None and math.isfinite(value) for value in values)


def _choose_pairs(
    study: Study, profiled: Sequence[StudyTrial], befores: Sequence[StudyTrial]
) -> list[tuple[StudyTrial, StudyTrial]]:
    """Return before and after of every variant that has both at one problem, the study's steps first.

    A step follows the nearest earlier step that was profiled, all else the baseline. The reference problem goes before
    others, and the fastest tunables do.
    """
    steps, pairs = study.experiment.steps, []
    afters = [trial for trial in profiled if trial.variant != study.baseline and not trial.is_expected_wrong]
    for group in grouped(sorted(afters, key=lambda trial: trial.order), lambda trial: trial.contender).values():
        variant = group[0].variant
        earlier = reversed(steps[: steps.index(variant)] if variant in steps else ())
        named = ([trial for trial in profiled if trial.variant == name] for name in earlier)
        before = next(filter(None, named), befores)
        profiled_before = {trial.problem for trial in before}
        shared = [trial.problem for trial in group if trial.problem in profiled_before]
        if shared and befores:
            problem = study.reference if study.reference in shared else shared[0]
            pairs.append((_fastest(before, problem), _fastest(group, problem)))
    return sorted(pairs, key=lambda pair: pair[1].variant not in steps)


def _fastest(trials: Sequence[StudyTrial], problem: Point) -> StudyTrial:
    return min((trial for trial in trials if trial.problem == problem), key=by_sure_time)


def _at_one_problem(study: Study, trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """Return each contender's fastest trial at the first trial's problem, and those left out there, in order."""
    if not trials:
        return []
    problem = trials[0].problem
    here = grouped((trial for trial in trials if trial.problem == problem), lambda trial: trial.contender)
    left_out = study.rows(study.frame[study.frame["id"].isin([key for key, _ in study.counters.other_algorithm])])
    found = [trial for trial in left_out if trial.problem == problem]
    found += [_fastest(group, problem) for group in here.values()]
    return sorted(dict.fromkeys(found), key=lambda trial: trial.order)


def _pair(study: Study, before: StudyTrial, after: StudyTrial) -> CounterPair:
    counters = study.counters
    metrics = sorted({*counters.of[before.id], *counters.of[after.id]}, key=listing_order)
    changes = [_change(study, metric, before, after) for metric in metrics]
    values = {
        change.metric: tuple(counters.value_of(trial.id, change.metric) for trial in (before, after))
        for change in changes
        if change.change != "–"
    }
    tunables = [trial.setting for trial in (before, after) if trial.tunables]
    ratio = study.ratio(before, after)
    differing = _join_folds([change for change in changes if change.change != "="])
    telling = {each.metric for each in sorted(differing, key=lambda each: _rank(each, values))[:MOST_CHANGES]}
    observations = [
        Observation(trial.contender, row.kernel, row.title or row.rule, row.severity, _LINK.sub(" ", row.text).strip())
        for trial in (before, after)
        for row in counters.advice.get(trial.id, ())
    ]
    return CounterPair(
        before=before.contender,
        after=after.contender,
        problem=after.problem_name,
        setting="; ".join([*tunables, f"caches {counters.mode}"]),
        speedup=1 / ratio if ratio else None,
        topics=_topics(values),
        changes=tuple(change for change in differing if change.metric in telling),
        further=tuple(change for change in differing if change.metric not in telling),
        same=tuple(f"{each.metric} {each.after} {each.unit}".strip() for each in changes if each.change == "="),
        observations=tuple(dict.fromkeys(observations)),
    )


def _join_folds(changes: Sequence[CounterChange]) -> list[CounterChange]:
    """Return one row for sum, avg, max and min of a metric: the one that is known, else the first of these."""
    joined = []
    for same in grouped(changes, lambda change: FOLD.sub("", change.metric, count=1)).values():
        order = {change.metric: FOLD.search(change.metric) for change in same}
        folds = {metric: found[1] if found else "" for metric, found in order.items()}
        ranked = sorted(
            same, key=lambda each: (find_metric(each.metric) is None, "sum avg max min".find(folds[each.metric]))
        )
        others = tuple(f"{folds[each.metric]} {each.change}" for each in ranked[1:])
        joined.append(replace(ranked[0], others=others))
    return joined


def _rank(change: CounterChange, values: Mapping[str, tuple[float | None, ...]]) -> tuple[int, float]:
    """Return a key that sorts telling counters first, then those with a meaning, each by how much it changed."""
    known = find_metric(change.metric)
    meaning = 0 if known and known.telling else 1 if known or find_kind(change.metric) else 2
    before, after = (abs(value or 0.0) for value in values.get(change.metric, (0.0, 0.0)))
    factor = abs(math.log(after / before)) if before and after else math.inf if before != after else 0.0
    return meaning, -factor


def _change(study: Study, metric: str, before: StudyTrial, after: StudyTrial) -> CounterChange:
    counters = study.counters
    rows = [counters.values.get((trial.id, metric)) for trial in (before, after)]
    values = [row.value if row else None for row in rows]
    missing = [counters.why_missing(trial.id, metric) or "not collected" for trial in (before, after)]
    texts = [format_counter(row.value, row.text) if row else text for row, text in zip(rows, missing, strict=True)]
    units = {row.unit for row in rows if row}
    if len(units) > 1:  # Nsight scales units; values in two units are no change of one thing
        values, texts = [None, None], [f"{text} {row.unit}" for text, row in zip(texts, rows, strict=True) if row]
    launches = [counters.launches_text(trial.id, metric) for trial in (before, after)]
    return CounterChange(
        metric=metric,
        unit=units.pop() if len(units) == 1 else "",
        before=texts[0],
        after=texts[1],
        change=format_change(*values),
        sentence=describe_change(metric, *values) or explain(texts),
        rollup=rollup_text(next(row.rollup for row in reversed(rows) if row)) if any(launches) else "",
        before_launches=launches[0],
        after_launches=launches[1],
    )


def _topics(before_after: Mapping[str, tuple[float | None, ...]]) -> tuple[tuple[str, str], ...]:
    """Return (topic, sentences) for the topics that both trials have counters of: grid, DRAM, shared memory, …"""
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for metric, (before, after) in before_after.items():
        known = find_metric(metric)
        if known is not None and known.topic:
            found[known.topic].append(describe_change(metric, before, after))
    return tuple((topic, " ".join(filter(None, said))) for topic, said in found.items() if any(said))


def _overview(study: Study, trials: Sequence[StudyTrial], fewest: int = 3) -> Table | None:
    """Return the telling counters, a row a profiled trial; None for too few trials or without any of the counters.

    A counter that is the same for all is said in a note instead. A trial that was profiled with another algorithm than
    was timed has that in place of its counters.

    Args:
        trials: all at one problem.
        fewest: fewer trials make no table.
    """
    counters = study.counters
    counted = [trial for trial in trials if trial.id in counters.of]
    stored = {metric for _, metric in counters.values}
    telling = [metric.name for metric in list_telling() if metric.name in stored]
    if len(trials) < fewest or not counted or not telling:
        return None
    values = {metric: [counters.value_of(trial.id, metric) for trial in counted] for metric in telling}
    several = len(counted) > 1
    same = [metric for metric, found in values.items() if several and found[0] is not None and len({*found}) == 1]
    shown = [metric for metric in telling if metric not in same]
    time = choose_scale("time", [trial.median_ns for trial in trials])
    scales = {metric: _scale(counters.unit_of(metric), values[metric]) for metric in shown}
    rows = []
    for trial in trials:
        cells = [Cell(time.format(trial.median_ns))]
        if trial in counted:
            cells += [_cell(study, trial, metric, scales[metric]) for metric in shown]
        elif shown:
            other = next(found for (key, _), found in counters.other_algorithm.items() if key == trial.id)
            cells.append(Cell(f"{OTHER_ALGORITHM} than was timed: {other}", "missing", span=len(shown)))
        rows.append(Row(trial.contender, trial.tunables_label, tuple(cells)))
    columns = Column("Time", time.unit), *(Column(heading_of(metric), scales[metric].unit) for metric in shown)
    of_all = "for all that are counted" if len(counted) < len(trials) else "for all"
    notes = [
        f"{heading_of(metric)} is {f'{format_counter(values[metric][0])} {counters.unit_of(metric)}'.strip()} {of_all}."
        for metric in same
    ]
    undefined = explain(cell.text for row in rows for cell in row.cells)
    title = f"The telling counters at {trials[0].problem_name}"
    return Table(title, "Variant", columns, tuple(rows), (*notes, *filter(None, [undefined])))


def _cell(study: Study, trial: StudyTrial, metric: str, scale: Scale) -> Cell:
    value = study.counters.value_of(trial.id, metric)
    if value is None:
        return Cell(study.counters.why_missing(trial.id, metric) or "–", "missing")
    return Cell(scale.format(value))


def _scale(unit: str, values: Sequence[float | None]) -> Scale:
    """Return how a column is written: bytes in thousands or millions, all else as Nsight gives it."""
    known = [value for value in values if value is not None]
    largest, prefix, size = max(map(abs, known), default=0.0), "", 1.0
    if unit == "byte" and largest >= 1e3:
        prefix, size = next(each for each in reversed(BYTES) if largest >= each[1])
        unit = f"{prefix}B"
    return Scale(unit, size, 0 if all((value / size).is_integer() for value in known) else 2)
