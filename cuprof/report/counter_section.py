"""Counters before and after: for each pair of variants, what Nsight Compute counted and what it advises."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from cuprof.backends.registry import find_spec
from cuprof.ncu import BACKENDS
from cuprof.ncu.metrics import METRICS, TOPICS, find_kind, heading_of, list_telling, listing_order
from cuprof.report.counters import OTHER_ALGORITHM
from cuprof.report.study import Pair, Study
from cuprof.report.tables import Cell, Column, Row, Table
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import choose_scale, format_counter

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
    frame, profiled = study.frame, study.profiled
    backends = {*frame["backend"][frame["variant"] == study.baseline]}
    unprofiled = min(backends) if backends and not backends & {*BACKENDS} else ""
    spec = find_spec(unprofiled) if unprofiled else None
    has_befores = any(trial.variant == study.baseline for trial in profiled)
    chosen, names = list_pairs(study), list(dict.fromkeys(trial.contender for trial in profiled))
    notes = say(WORDS, "pairs", study, spec.title if spec else unprofiled, has_befores, names, bool(chosen))
    notes += [
        *say(WORDS, "mode", study.counters.mode),
        *left_out_notes(study, frame),
        *say(WORDS, "more_pairs", len(chosen), MOST_PAIRS),
    ]
    pairs = [_pair(study, *pair) for pair in chosen[:MOST_PAIRS]]
    if pairs:  # at the overview's problem, so that one reading leads into the other
        gains = [(pair["problem"] == pairs[0]["problem"]) * (pair["speedup"] or 0.0) for pair in pairs]
        pairs[gains.index(max(gains))]["open"] = True
    would_help = not unprofiled or (not profiled and frame["backend"].isin(BACKENDS).any())
    counted, fewest = [trial for pair in chosen for trial in pair], 3
    if unprofiled and not has_befores:
        right = [trial for trial in profiled if not trial.is_expected_wrong]
        counted, fewest = sorted(right, key=lambda trial: trial.problem != study.reference), 1
    return {
        "pairs": pairs,
        "notes": notes,
        "how": collect_command(study) if would_help and not pairs else "",
        "overview": _overview(study, counted, fewest),
    }


def list_pairs(study: Study) -> list[tuple[StudyTrial, StudyTrial]]:
    """Return before and after of every variant that has both at one problem, the study's steps first.

    A step follows the nearest earlier step that was profiled, all else the baseline. The reference problem goes before
    others, and the fastest tunables do.
    """
    steps, profiled = study.experiment.steps, sorted(study.profiled, key=lambda trial: trial.sure_ns)
    of_variants, pairs = grouped(profiled, lambda trial: trial.variant), []
    befores = of_variants.get(study.baseline, [])
    afters = [trial for trial in study.profiled if trial.variant != study.baseline and not trial.is_expected_wrong]
    for group in grouped(sorted(afters, key=lambda trial: trial.order), lambda trial: trial.contender).values():
        variant = group[0].variant
        earlier = reversed(steps[: steps.index(variant)] if variant in steps else ())
        before = next((of_variants[name] for name in earlier if name in of_variants), befores)
        shared = [(base, trial) for trial in group for base in before if base.problem == trial.problem and befores]
        pairs += sorted(shared, key=lambda pair: pair[1].problem != study.reference)[:1]
    return sorted(pairs, key=lambda pair: pair[1].variant not in steps)


def collect_command(study: Study) -> str:
    """Return the command that collects counters of the study's trials, cold ones."""
    return f"python -m cuprof ncu-collect {study.sweep.selection}"


def left_out_notes(study: Study, trials: pd.DataFrame, metric: str = "") -> list[str]:
    """Return which of some trials have stored counters that are not compared, and why.

    Args:
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

    A metric of no kind that `cuprof.ncu.metrics` knows gets the plain change.
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
    }


def _overview(study: Study, chosen: Sequence[StudyTrial], fewest: int) -> Table | None:
    """Return the telling counters, a row a trial at the first one's problem; None for too few or without any of them.

    A counter that is the same for all is said in a note instead. A trial that was profiled with another algorithm than
    was timed has that in place of its counters.

    Args:
        fewest: fewer trials make no table.
    """
    counters, frame = study.counters, study.frame
    left_out = study.rows(frame[frame["id"].isin([key for key, _ in counters.other_algorithm])])
    problem = chosen[0].problem if chosen else None
    here = [trial for trial in dict.fromkeys([*left_out, *chosen]) if trial.problem == problem]
    trials = sorted(here, key=lambda trial: trial.order)
    counted = [trial for trial in trials if trial.id in counters.of]
    stored = {metric for _, metric in counters.values}
    telling = [metric.name for metric in list_telling() if metric.name in stored]
    if len(trials) < fewest or not counted or not telling:
        return None
    values = {metric: [counters.value_of(trial.id, metric) for trial in counted] for metric in telling}
    several = len(counted) > 1
    same = [metric for metric, found in values.items() if several and found[0] is not None and len({*found}) == 1]
    time = choose_scale("time", [trial.median_ns for trial in trials])
    differing = [metric for metric in telling if metric not in same]
    scales = {metric: choose_scale("plain", values[metric], counters.unit_of(metric)) for metric in differing}
    rows = []
    for trial in trials:
        cells = [Cell(time.format(trial.median_ns))]
        if trial in counted:
            for metric, scale in scales.items():
                value, why = counters.value_of(trial.id, metric), counters.why_missing(trial.id, metric) or "–"
                cells.append(Cell(why, "missing") if value is None else Cell(scale.format(value)))
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
