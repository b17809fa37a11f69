"""Counters before and after: for each pair of variants, what Nsight Compute counted and what it advises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuprof.backends.registry import find_spec
from cuprof.core.point import Point
from cuprof.ncu import BACKENDS
from cuprof.ncu.metrics import TOPICS, find_metric, heading_of, list_telling, listing_order
from cuprof.report.counter_notes import (
    collect_command,
    launches_text,
    left_out_notes,
    mode_note,
    rollup_text,
    why_uncounted,
)
from cuprof.report.counter_sentences import describe_change, explain, format_change, format_counter
from cuprof.report.counters import WHY
from cuprof.report.study import Study
from cuprof.report.tables import Cell, Column, Row, Table
from cuprof.report.trials import StudyTrial, by_sure_time, grouped
from cuprof.report.units import Scale, choose_scale

BYTES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
MOST_PAIRS = 16

NOTE = (
    "Counters are of runs under Nsight Compute, times of runs without it. A counter that changes along with the time "
    "need not be what changed the time."
)

NO_COUNTERS = (
    "The baseline {} is {} code. Nsight Compute reads no hardware counters of it: it profiles CUDA kernels only. So "
    "there is no before and after here."
)


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
    """Two variants at one problem: their counters and Nsight's advice.

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
    observations: tuple[Observation, ...]
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
    baseline = {trial.backend for trial in study.trials if trial.variant == study.baseline}
    backend = _title(min(baseline)) if baseline and not baseline & {*BACKENDS} else ""
    if not study.counters.values:
        is_any = any(trial.backend in BACKENDS for trial in study.trials)
        notes = ([NO_COUNTERS.format(study.baseline, backend)] if backend else []) + [
            *left_out_notes(study, study.trials)
        ]
        return CounterSection((), tuple(notes), how if is_any or not backend else "")
    profiled = [trial for trial in study.trials if study.counters.of(trial)]
    befores = [trial for trial in profiled if trial.variant == study.baseline]
    modes = tuple(filter(None, (mode_note(study), *left_out_notes(study, study.trials))))
    if not befores and backend:
        table = _overview(study, _at_one_problem(study, profiled), fewest=1)
        return CounterSection((), (NO_COUNTERS.format(study.baseline, backend), *modes), "", table)
    if not befores:
        names = ", ".join(dict.fromkeys(trial.contender for trial in profiled))
        note = f"{study.counters.mode.capitalize()} counters are stored for {names}, but none for the baseline"
        return CounterSection((), (f"{note} {study.baseline}.", *modes), how)
    chosen = []
    afters = [trial for trial in profiled if trial.variant != study.baseline and not trial.is_expected_wrong]
    in_order = sorted(afters, key=lambda trial: trial.order)
    for trials in grouped(in_order, lambda trial: trial.contender).values():
        found = _choose(study, _step_before(study, profiled, trials[0].variant, befores), trials)
        if found:
            chosen.append(found)
    chosen.sort(key=lambda pair: pair[1].variant not in study.experiment.steps)
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
    return CounterSection(opened, tuple(notes), "" if opened else how, _overview(study, _profiled_once(study, chosen)))


def _title(backend: str) -> str:
    spec = find_spec(backend)
    return spec.title if spec else backend


def _at_one_problem(study: Study, profiled: Sequence[StudyTrial]) -> list[StudyTrial]:
    """Return each contender's fastest profiled trial at the reference problem, or at the first that was profiled."""
    right = [trial for trial in profiled if not trial.is_expected_wrong]
    if not right:
        return []
    problem = study.reference if any(trial.problem == study.reference for trial in right) else right[0].problem
    here = [trial for trial in right if trial.problem == problem]
    best = [min(trials, key=by_sure_time) for trials in grouped(here, lambda trial: trial.contender).values()]
    return _with_left_out(study, best, problem)


def _step_before(
    study: Study, profiled: Sequence[StudyTrial], variant: str, befores: Sequence[StudyTrial]
) -> Sequence[StudyTrial]:
    """Return the trials of the nearest earlier step that was profiled; those of the baseline for all else."""
    steps = study.experiment.steps
    for name in reversed(steps[: steps.index(variant)] if variant in steps else ()):
        if trials := [trial for trial in profiled if trial.variant == name]:
            return trials
    return befores


def _profiled_once(study: Study, pairs: Sequence[tuple[StudyTrial, StudyTrial]]) -> list[StudyTrial]:
    """Return the pairs' trials, the ones at the first pair's problem, each once, in the family's order."""
    problem = pairs[0][0].problem if pairs else None
    trials = [trial for pair in pairs for trial in pair if trial.problem == problem]
    return _with_left_out(study, trials, problem) if pairs else []


def _with_left_out(study: Study, trials: Sequence[StudyTrial], problem: Point | None) -> list[StudyTrial]:
    """Return the trials and those left out at that problem for another algorithm, in the family's order."""
    others = {trial for trial, _ in study.counters.other_algorithm}
    here = [trial for trial in study.trials if trial.id in others and trial.problem == problem]
    return sorted(dict.fromkeys([*here, *trials]), key=lambda trial: trial.order)


def _choose(
    study: Study, befores: Sequence[StudyTrial], afters: Sequence[StudyTrial]
) -> tuple[StudyTrial, StudyTrial] | None:
    """Return the two trials to compare: the reference problem before others, the fastest tunables before others."""
    profiled = {trial.problem for trial in befores}
    shared = [trial.problem for trial in afters if trial.problem in profiled]
    if not shared:
        return None
    problem = study.reference if study.reference in shared else shared[0]
    before, after = (
        min((each for each in side if each.problem == problem), key=by_sure_time) for side in (befores, afters)
    )
    return before, after


def _pair(study: Study, before: StudyTrial, after: StudyTrial) -> CounterPair:
    metrics = sorted({*study.counters.of(before), *study.counters.of(after)}, key=listing_order)
    changes = [_change(study, metric, before, after) for metric in metrics]
    values = {
        metric: (study.counters.value_of(before, metric), study.counters.value_of(after, metric))
        for metric, change in zip(metrics, changes, strict=True)
        if change.change != "–"
    }
    tunables = [trial.setting for trial in (before, after) if trial.tunables]
    ratio = study.ratio(before, after)
    return CounterPair(
        before=before.contender,
        after=after.contender,
        problem=after.problem_name,
        setting="; ".join([*tunables, f"caches {study.counters.mode}"]),
        speedup=1 / ratio if ratio else None,
        topics=_topics(values),
        changes=tuple(change for change in changes if change.change != "="),
        same=tuple(
            f"{change.metric} {change.after}{f' {change.unit}' if change.unit else ''}"
            for change in changes
            if change.change == "="
        ),
        observations=(*_observations(study, before), *_observations(study, after)),
    )


def _change(study: Study, metric: str, before: StudyTrial, after: StudyTrial) -> CounterChange:
    values: list[float | None] = []
    texts: list[str] = []
    units: list[str] = []
    rollup = ""
    for trial in (before, after):
        row = study.counters.of(trial).get(metric)
        values.append(row.value if row else None)
        missing = why_uncounted(study, trial, metric) or "not collected"
        texts.append(missing if row is None else format_counter(row.value, row.text))
        if row is not None:
            rollup, units = rollup_text(row.rollup), [*units, row.unit]
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


def _observations(study: Study, trial: StudyTrial) -> tuple[Observation, ...]:
    found = []
    for row in study.counters.advice.get(trial.id, ()):
        text = re.sub(r"@(url|section|source)[^@]*@|\s+", " ", row.text).strip()
        found.append(Observation(trial.contender, row.kernel, row.title or row.rule, row.severity, text))
    return tuple(dict.fromkeys(found))


def _overview(study: Study, trials: Sequence[StudyTrial], fewest: int = 3) -> Table | None:
    """Return the telling counters, a row a profiled trial; None for too few trials or without any of the counters.

    A counter that is the same for all is said in a note instead. A trial that was profiled with another algorithm than
    was timed has that in place of its counters.

    Args:
        trials: all at one problem.
        fewest: fewer trials make no table.
    """
    counted = [trial for trial in trials if study.counters.of(trial)]
    stored = {metric for _, metric in study.counters.values}
    values = {
        metric.name: [study.counters.value_of(trial, metric.name) for trial in counted]
        for metric in list_telling()
        if metric.name in stored
    }
    if len(trials) < fewest or not counted or not values:
        return None
    several = len(counted) > 1
    same = {
        metric: found[0] for metric, found in values.items() if several and found[0] is not None and len({*found}) == 1
    }
    shown = {metric: found for metric, found in values.items() if metric not in same}
    scale = choose_scale("time", [trial.median_ns for trial in trials])
    scales = {metric: _counter_scale(study, metric, found) for metric, found in shown.items()}
    rows = []
    for trial in trials:
        cells = [Cell(scale.format(trial.median_ns))]
        if study.counters.of(trial):
            cells += [_counter_cell(study, trial, metric, found, scales[metric][1]) for metric, found in shown.items()]
        elif shown:
            cells.append(_other_algorithm(study, trial, len(shown)))
        rows.append(Row(trial.contender, trial.tunables_label, tuple(cells)))
    columns = (
        Column("Time", scale.unit),
        *(Column(heading_of(metric), unit) for metric, (unit, _) in scales.items()),
    )
    units = {metric: study.counters.unit_of(metric) for metric in same}
    notes = [
        f"{heading_of(metric)} is {format_counter(value)}{f' {units[metric]}' if units[metric] else ''} for all"
        f"{' that are counted' if len(counted) < len(trials) else ''}."
        for metric, value in same.items()
    ]
    undefined = explain(cell.text for row in rows for cell in row.cells)
    title = f"The telling counters at {trials[0].problem_name}"
    return Table(title, "Variant", columns, tuple(rows), (*notes, *filter(None, [undefined])))


def _counter_cell(study: Study, trial: StudyTrial, metric: str, found: Sequence[float | None], divisor: float) -> Cell:
    value = study.counters.value_of(trial, metric)
    if value is None:
        return Cell(why_uncounted(study, trial, metric) or "–", "missing")
    whole = all(each is None or (each / divisor).is_integer() for each in found)
    return Cell(Scale("", divisor, 0 if whole else 2).format(value))


def _other_algorithm(study: Study, trial: StudyTrial, span: int) -> Cell:
    shown = next((other for (identity, _), other in study.counters.other_algorithm.items() if identity == trial.id), "")
    return Cell(f"{WHY} than was timed: {shown}", "missing", span=span)


def _topics(before_after: Mapping[str, tuple[float | None, float | None]]) -> tuple[tuple[str, str], ...]:
    """Return (topic, sentences) for the topics that both trials have counters of: grid, DRAM, shared memory, …"""
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for metric, pair in before_after.items():
        known = find_metric(metric)
        if known is not None and known.topic:
            found[known.topic].append(describe_change(metric, *pair))
    return tuple((topic, " ".join(filter(None, said))) for topic, said in found.items() if any(said))


def _counter_scale(study: Study, metric: str, values: Sequence[float | None]) -> tuple[str, float]:
    """Return the unit of a column and its size: bytes in thousands or millions, all else as Nsight gives it."""
    unit = study.counters.unit_of(metric)
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if unit != "byte" or largest < 1e3:
        return unit, 1.0
    prefix, size = next(each for each in reversed(BYTES) if largest >= each[1])
    return f"{prefix}B", size
