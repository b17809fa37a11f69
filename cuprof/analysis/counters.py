"""Counters before and after: for each pair of variants, what Nsight Compute counted and what it advises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from cuprof.analysis.cache_modes import collect_command, left_out_notes, mode_note, why_uncounted
from cuprof.analysis.counter_overview import overview, topics
from cuprof.analysis.counter_sentences import describe_change, format_change, format_counter
from cuprof.analysis.launches import launches_text, rollup_text
from cuprof.analysis.study import Study
from cuprof.analysis.tables import Table
from cuprof.analysis.undefined_ratios import explain
from cuprof.point import Point
from cuprof.profiling.knowledge import listing_order

MOST_PAIRS = 16

NOTE = (
    "Counters are of runs under Nsight Compute, times of runs without it. A counter that changes along with the time "
    "need not be what changed the time."
)

NO_COUNTERS = (
    "The baseline {} is {} code, of which Nsight Compute reads no hardware counters: it profiles CUDA kernels only. So "
    "there is no before and after here."
)
BACKENDS = {"opencl": "OpenCL", "cpu": "CPU"}


@dataclass(frozen=True)
class CounterChange:
    """One counter of a pair; `before_launches` and `after_launches` list the launches where they differ."""

    metric: str
    unit: str
    before: str
    after: str
    change: str
    sentence: str
    rollup: str = ""
    before_launches: str = ""
    after_launches: str = ""


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
    """Two variants at one problem: their counters and Nsight's findings.

    Args:
        topics: (topic, what changed in words): the grid, DRAM traffic, shared memory, coalescing, …
        changes: counters that changed or that only one of them has.
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
    findings: tuple[Observation, ...]
    open: bool = False


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
    how = collect_command(study)
    backend = _unprofiled_baseline(study)
    if study.counters.empty:
        is_cuda = (study.trials["backend"] == "cuda").any()
        notes = ([NO_COUNTERS.format(study.baseline, backend)] if backend else []) + [
            *left_out_notes(study, study.trials)
        ]
        return CounterSection((), tuple(notes), how if is_cuda or not backend else "")
    profiled = study.trials[study.trials["trial_id"].isin(study.counters["trial_id"])]
    befores = profiled[profiled["variant"] == study.baseline]
    modes = tuple(filter(None, (mode_note(study), *left_out_notes(study, study.trials))))
    if befores.empty and backend:
        table = overview(study, _at_one_problem(study, profiled), fewest=1)
        return CounterSection((), (NO_COUNTERS.format(study.baseline, backend), *modes), "", table)
    if befores.empty:
        names = ", ".join(dict.fromkeys(profiled["contender"]))
        note = f"{study.cache_mode.capitalize()} counters are stored for {names}, but none for the baseline"
        return CounterSection((), (f"{note} {study.baseline}.", *modes), how)
    chosen = []
    afters = profiled[(profiled["variant"] != study.baseline) & (profiled["expected"] != "wrong")]
    for contender in dict.fromkeys(afters.sort_values("order", kind="stable")["contender"]):
        trials = afters[afters["contender"] == contender]
        found = _choose(study, _step_before(study, profiled, str(trials.iloc[0]["variant"]), befores), trials)
        if found:
            chosen.append(found)
    chosen.sort(key=lambda pair: pair[1]["variant"] not in study.experiment.steps)
    notes = [NOTE if chosen else "No variant was profiled at the same problem as the baseline.", *modes]
    if len(chosen) > MOST_PAIRS:
        notes.append(
            f"The first {MOST_PAIRS} of {len(chosen)} pairs are shown; "
            "python -m cuprof query counters_before_after lists all."
        )
    pairs = [_pair(study, *pair) for pair in chosen[:MOST_PAIRS]]
    # at the overview's problem, so that one reading leads into the other
    gains = [(pair.problem == pairs[0].problem) * (pair.speedup or 0.0) for pair in pairs]
    opened = tuple(replace(pair, open=i == gains.index(max(gains))) for i, pair in enumerate(pairs))
    return CounterSection(opened, tuple(notes), "" if opened else how, overview(study, _profiled_once(study, chosen)))


def _unprofiled_baseline(study: Study) -> str:
    """Return "OpenCL" or "CPU" for a baseline that Nsight Compute cannot profile, else the empty text."""
    backends = set(study.trials.loc[study.trials["variant"] == study.baseline, "backend"])
    return "" if not backends or "cuda" in backends else BACKENDS.get(min(backends), min(backends))


def _at_one_problem(study: Study, profiled: pd.DataFrame) -> list[Mapping[Any, Any]]:
    """Return each contender's fastest profiled trial at the reference problem, or at the first that was profiled."""
    right = profiled[profiled["expected"] != "wrong"]
    if right.empty:
        return []
    problem = study.reference if (right["problem"] == study.reference).any() else right.iloc[0]["problem"]
    here = right[right["problem"] == problem].sort_values(["order", "time_ns"], kind="stable", na_position="last")
    trials = here.drop_duplicates("contender").to_dict("records")
    return _with_left_out(study, {trial["trial_id"]: trial for trial in trials}, problem)


def _step_before(study: Study, profiled: pd.DataFrame, variant: str, befores: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of the nearest earlier step that was profiled; those of the baseline for all else."""
    steps = study.experiment.steps
    for name in reversed(steps[: steps.index(variant)] if variant in steps else ()):
        rows = profiled[profiled["variant"] == name]
        if not rows.empty:
            return rows
    return befores


def _profiled_once(study: Study, pairs: list[tuple[Mapping[Any, Any], Mapping[Any, Any]]]) -> list[Mapping[Any, Any]]:
    """Return the pairs' trials, the ones at the first pair's problem, each once, in the family's order."""
    problem = pairs[0][0]["problem"] if pairs else None
    trials = {trial["trial_id"]: trial for pair in pairs for trial in pair if trial["problem"] == problem}
    return _with_left_out(study, trials, problem) if pairs else []


def _with_left_out(
    study: Study, trials: Mapping[int, Mapping[Any, Any]], problem: Point | None
) -> list[Mapping[Any, Any]]:
    """Return the trials and those left out at that problem for another algorithm, in the family's order."""
    others = study.trials[study.trials["trial_id"].isin({trial for trial, _ in study.other_algorithm})]
    here = others[others["problem"] == problem].to_dict("records")
    together = {**{trial["trial_id"]: trial for trial in here}, **trials}
    return sorted(together.values(), key=lambda trial: int(trial["order"]))


def _choose(
    study: Study, befores: pd.DataFrame, afters: pd.DataFrame
) -> tuple[Mapping[Any, Any], Mapping[Any, Any]] | None:
    """Return the two trials to compare: the reference problem before others, the fastest tunables before others."""
    shared = set(befores["problem"]) & set(afters["problem"])
    if not shared:
        return None
    in_order = [problem for problem in afters["problem"] if problem in shared]
    problem = study.reference if study.reference in shared else in_order[0]
    chosen = []
    for trials in (befores, afters):
        here = trials[trials["problem"] == problem]
        chosen.append(dict(here.sort_values("time_ns", kind="stable", na_position="last").iloc[0]))
    return chosen[0], chosen[1]


def _pair(study: Study, before: Mapping[Any, Any], after: Mapping[Any, Any]) -> CounterPair:
    of_before = study.counters[study.counters["trial_id"] == before["trial_id"]].set_index("metric")
    of_after = study.counters[study.counters["trial_id"] == after["trial_id"]].set_index("metric")
    metrics = sorted(set(of_before.index) | set(of_after.index), key=listing_order)
    changes = [_change(study, metric, of_before, of_after, before, after) for metric in metrics]
    values = {
        metric: (_number(of_before, metric), _number(of_after, metric))
        for metric, change in zip(metrics, changes, strict=True)
        if change.change != "–"
    }
    tunables = [f"{row['contender']} with {row['tunables_label']}" for row in (before, after) if row["tunables_label"]]
    setting = "; ".join([*tunables, f"caches {study.cache_mode}"])
    both = pd.notna(before["time_ns"]) and pd.notna(after["time_ns"])
    return CounterPair(
        before=before["contender"],
        after=after["contender"],
        problem=after["problem_name"],
        setting=setting,
        speedup=before["time_ns"] / after["time_ns"] if both else None,
        topics=topics(values),
        changes=tuple(change for change in changes if change.change != "="),
        same=tuple(
            f"{change.metric} {change.after}{f' {change.unit}' if change.unit else ''}"
            for change in changes
            if change.change == "="
        ),
        findings=(*_findings(study, before), *_findings(study, after)),
    )


def _change(
    study: Study,
    metric: str,
    of_before: pd.DataFrame,
    of_after: pd.DataFrame,
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
) -> CounterChange:
    values: list[float | None] = []
    texts: list[str] = []
    units: list[str] = []
    rollup = ""
    for frame, trial in ((of_before, before), (of_after, after)):
        row = frame.loc[metric] if metric in frame.index else None
        number = None if row is None or pd.isna(row["value"]) else float(row["value"])
        values.append(number)
        missing = why_uncounted(study, trial, metric) or "not collected"
        texts.append(missing if row is None else format_counter(number, str(row["text"] or "")))
        if row is not None:
            rollup, units = rollup_text(str(row["rollup"] or "")), [*units, str(row["unit"] or "")]
    if len(set(units)) > 1:  # Nsight scales units; values in two units are no change of one thing
        values = [None, None]
        texts = [f"{text} {unit}" for text, unit in zip(texts, units, strict=True)]
    launches = launches_text(study, before, metric), launches_text(study, after, metric)
    return CounterChange(
        metric=metric,
        unit=units[0] if len(set(units)) == 1 else "",
        before=texts[0],
        after=texts[1],
        change=format_change(values[0], values[1]),
        sentence=describe_change(metric, values[0], values[1]) or explain(texts),
        rollup=rollup if any(launches) else "",
        before_launches=launches[0],
        after_launches=launches[1],
    )


def _number(frame: pd.DataFrame, metric: str) -> float | None:
    value = frame.loc[metric]["value"] if metric in frame.index else None
    return None if value is None or pd.isna(value) else float(value)


def _findings(study: Study, trial: Mapping[Any, Any]) -> tuple[Observation, ...]:
    if study.findings.empty:
        return ()
    rows = study.findings[study.findings["trial_id"] == trial["trial_id"]].to_dict("records")
    found = [
        Observation(
            variant=trial["contender"],
            kernel=row["kernel"],
            rule=row["title"] or row["rule"],
            severity=row["severity"],
            text=re.sub(r"@(url|section|source)[^@]*@|\s+", " ", row["text"]).strip(),
        )
        for row in rows
    ]
    return tuple(dict.fromkeys(found))
