"""Counters before and after: for each pair of variants, what Nsight Compute counted and what it advises."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from cuprof.backends.registry import find_spec
from cuprof.core.point import Point
from cuprof.ncu import BACKENDS
from cuprof.ncu.metrics import METRICS, TOPICS, find_kind, heading_of, list_telling, listing_order
from cuprof.report.counters import OTHER_ALGORITHM
from cuprof.report.study import Pair, Study
from cuprof.report.tables import Cell, Column, Row, Table
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import Scale, choose_scale, format_counter

WORDS = "counters.txt"
MOST_PAIRS = 16
MOST_CHANGES = 20
"""Counters of a pair that are shown at once; the others are behind a click."""
FOLD = re.compile(r"\.(sum|avg|max|min)(?=\.|$)")
"""How a metric says what it makes of the units' values; several of one metric are one row."""

_LINK = re.compile(r"@(url|section|source)[^@]*@|\s+")


def counter_section(study: Study) -> dict[str, Any]:
    """Return before → after for every right variant that has counters at the same problem as what it follows.

    It has the `pairs` (see `_pair`), `notes`, an `overview` table or None, and `how`: the command that collects
    counters, where there are no pairs and it would bring some, else empty.

    A step of the study is compared with the step before it, every other variant with the baseline. Trials without a
    counter of the study's cache mode are in no pair, nor are a library's that were profiled with another algorithm than
    was timed; notes name them.
    """
    frame = study.frame
    profiled, befores = _profiled(study)
    backends = {*frame["backend"][frame["variant"] == study.baseline]}
    unprofiled = min(backends) if backends and not backends & {*BACKENDS} else ""
    chosen = list_pairs(study)
    spec = find_spec(unprofiled) if unprofiled else None
    names = list(dict.fromkeys(trial.contender for trial in profiled))
    notes = say(WORDS, "pairs", study, spec.title if spec else unprofiled, bool(befores), names, bool(chosen))
    notes += [*mode_notes(study), *left_out_notes(study, frame), *say(WORDS, "more_pairs", len(chosen), MOST_PAIRS)]
    pairs = [_pair(study, *pair) for pair in chosen[:MOST_PAIRS]]
    if pairs:  # at the overview's problem, so that one reading leads into the other
        gains = [(pair["problem"] == pairs[0]["problem"]) * (pair["speedup"] or 0.0) for pair in pairs]
        pairs[gains.index(max(gains))]["open"] = True
    would_help = not unprofiled or (not profiled and frame["backend"].isin(BACKENDS).any())
    how = collect_command(study) if would_help and not pairs else ""
    is_alone = bool(unprofiled) and not befores
    counted = [trial for pair in chosen for trial in pair]
    if is_alone:
        right = [trial for trial in profiled if not trial.is_expected_wrong]
        counted = sorted(right, key=lambda trial: trial.problem != study.reference)
    overview = _overview(study, _at_one_problem(study, counted), 1 if is_alone else 3)
    return {"pairs": pairs, "notes": notes, "how": how, "overview": overview}


def list_pairs(study: Study) -> list[tuple[StudyTrial, StudyTrial]]:
    """Return before and after of every variant that has both at one problem, the study's steps first.

    A step follows the nearest earlier step that was profiled, all else the baseline. The reference problem goes before
    others, and the fastest tunables do.
    """
    profiled, befores = _profiled(study)
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


def _profiled(study: Study) -> tuple[list[StudyTrial], list[StudyTrial]]:
    """Return the trials that have counters, and those of the baseline among them."""
    profiled = study.rows(study.frame[study.frame["id"].isin(list(study.counters.of))])
    return profiled, [trial for trial in profiled if trial.variant == study.baseline]


def _fastest(trials: Sequence[StudyTrial], problem: Point) -> StudyTrial:
    return min((trial for trial in trials if trial.problem == problem), key=lambda trial: trial.sure_ns)


def _at_one_problem(study: Study, trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """Return each contender's fastest trial at the first trial's problem, and those left out there, in order."""
    here = [trial for trial in trials if trial.problem == trials[0].problem]
    left_out = study.rows(study.frame[study.frame["id"].isin([key for key, _ in study.counters.other_algorithm])])
    found = [trial for trial in left_out if here and trial.problem == here[0].problem]
    found += [
        min(group, key=lambda trial: trial.sure_ns) for group in grouped(here, lambda trial: trial.contender).values()
    ]
    return sorted(dict.fromkeys(found), key=lambda trial: trial.order)


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
    judged = grouped(study.rows(trials[trials["id"].isin(others)]), lambda trial: trial.contender)
    return say(WORDS, "left_out", dict(numbers), judged, others, collect_command(study))


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
    return say_once(WORDS, "change", before, after) if _are_numbers(before, after) else "–"


def explain(texts: Iterable[str]) -> str:
    """Return what the texts of undefined ratios mean, each meaning once; empty for any other texts."""
    meanings = {metric.absence: metric.exempt for metric in METRICS.values() if metric.exempt}
    return " ".join(dict.fromkeys(meanings[text] for text in texts if text in meanings))


def _are_numbers(*values: float | None) -> bool:
    return all(value is not None and math.isfinite(value) for value in values)


def _pair(study: Study, before: StudyTrial, after: StudyTrial) -> dict[str, Any]:
    """Return two variants at one problem: their counters and Nsight's advice.

    `topics` say in words what changed, of the grid, DRAM traffic, shared memory and so on; `changes` are the most
    telling counters that changed or that only one of them has, `further` the others, and `same` the unchanged, as text;
    `open` is true of the pair with the greatest gain at the first pair's problem, which a page opens.
    """
    counters, trials = study.counters, (before, after)
    metrics = sorted({*counters.of[before.id], *counters.of[after.id]}, key=listing_order)
    changes = [_change(study, metric, trials) for metric in metrics]
    topics: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for change in changes:
        if (known := METRICS.get(change["metric"])) and known.topic and change["change"] != "–":
            topics[known.topic].append(change["sentence"])
    differing = _join_folds([change for change in changes if change["change"] != "="])
    telling = {each["metric"] for each in sorted(differing, key=lambda each: _rank(study, each, trials))[:MOST_CHANGES]}
    observations = [
        {
            "variant": trial.contender,
            "kernel": row.kernel,
            "rule": row.title or row.rule,
            "severity": row.severity,
            "text": _LINK.sub(" ", row.text).strip(),
        }
        for trial in trials
        for row in counters.advice.get(trial.id, ())
    ]
    return {
        "before": before.contender,
        "after": after.contender,
        "problem": after.problem_name,
        "setting": "; ".join([*(trial.setting for trial in trials if trial.tunables), f"caches {counters.mode}"]),
        "speedup": Pair(study, before, after).speedup,
        "topics": [(topic, " ".join(said)) for topic, said in topics.items() if said],
        "changes": [change for change in differing if change["metric"] in telling],
        "further": [change for change in differing if change["metric"] not in telling],
        "same": [
            f"{each['metric']} {each['after']} {each['unit']}".strip() for each in changes if each["change"] == "="
        ],
        "observations": [each for place, each in enumerate(observations) if each not in observations[:place]],
        "open": False,
    }


def _join_folds(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for sum, avg, max and min of a metric: the one that is known, else the first of these.

    It has the changes of the others: "avg × 2.00".
    """
    joined = []
    for same in grouped(changes, lambda change: FOLD.sub("", change["metric"], count=1)).values():
        folds = {each["metric"]: "".join(FOLD.findall(each["metric"])[:1]) for each in same}
        first, *others = sorted(
            same, key=lambda each: (each["metric"] not in METRICS, "sum avg max min".find(folds[each["metric"]]))
        )
        joined.append({**first, "others": [f"{folds[each['metric']]} {each['change']}" for each in others]})
    return joined


def _rank(study: Study, change: Mapping[str, Any], trials: Iterable[StudyTrial]) -> tuple[int, float]:
    """Return a key that sorts telling counters first, then those with a meaning, each by how much it changed."""
    metric = change["metric"]
    known = METRICS.get(metric)
    meaning = 0 if known and known.telling else 1 if known or find_kind(metric) else 2
    if change["change"] == "–":
        return meaning, 0.0
    before, after = (abs(study.counters.value_of(trial.id, metric) or 0.0) for trial in trials)
    return meaning, -abs(math.log(after / before)) if before and after else -math.inf if before != after else 0.0


def _change(study: Study, metric: str, trials: Sequence[StudyTrial]) -> dict[str, Any]:
    """Return one counter of a pair, with the launches on each side where they differ."""
    counters = study.counters
    rows = [counters.values.get((trial.id, metric)) for trial in trials]
    values = [counters.value_of(trial.id, metric) for trial in trials]
    missing = [counters.why_missing(trial.id, metric) or "not collected" for trial in trials]
    texts = [format_counter(row.value, row.text) if row else text for row, text in zip(rows, missing, strict=True)]
    units = {row.unit for row in rows if row}
    if len(units) > 1:  # Nsight scales units; values in two units are no change of one thing
        values, texts = [None, None], [f"{text} {row.unit}" for text, row in zip(texts, rows, strict=True) if row]
    launches = [counters.launches_text(trial.id, metric) for trial in trials]
    rule = next(row.rollup for row in reversed(rows) if row) if any(launches) else ""
    return {
        "metric": metric,
        "unit": units.pop() if len(units) == 1 else "",
        "before": texts[0],
        "after": texts[1],
        "change": format_change(*values),
        "sentence": describe_change(metric, *values) or explain(texts),
        "rollup": say_once(WORDS, "rollup", rule),
        "before_launches": launches[0],
        "after_launches": launches[1],
        "others": [],
    }


def _overview(study: Study, trials: Sequence[StudyTrial], fewest: int) -> Table | None:
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
    time = choose_scale("time", [trial.median_ns for trial in trials])
    scales = {
        metric: choose_scale("plain", values[metric], counters.unit_of(metric))
        for metric in telling
        if metric not in same
    }
    rows = []
    for trial in trials:
        cells = [Cell(time.format(trial.median_ns))]
        if trial in counted:
            cells += [_cell(study, trial, metric, scale) for metric, scale in scales.items()]
        elif scales:
            other = next(found for (key, _), found in counters.other_algorithm.items() if key == trial.id)
            cells.append(Cell(f"{OTHER_ALGORITHM} than was timed: {other}", "missing", span=len(scales)))
        rows.append(Row(trial.contender, trial.tunables.label, tuple(cells)))
    columns = Column("Time", time.unit), *(Column(heading_of(name), scale.unit) for name, scale in scales.items())
    shared = [(heading_of(metric), values[metric][0], counters.unit_of(metric)) for metric in same]
    notes = say(WORDS, "shared", shared, len(counted) < len(trials))
    undefined = explain(cell.text for row in rows for cell in row.cells)
    title = f"The telling counters at {trials[0].problem_name}"
    return Table(title, "Variant", columns, tuple(rows), (*notes, *filter(None, [undefined])))


def _cell(study: Study, trial: StudyTrial, metric: str, scale: Scale) -> Cell:
    value = study.counters.value_of(trial.id, metric)
    if value is None:
        return Cell(study.counters.why_missing(trial.id, metric) or "–", "missing")
    return Cell(scale.format(value))
