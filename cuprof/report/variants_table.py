"""Tables with a row a variant: a study's steps beside published figures, any problem's, a search's fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from cuprof.core.point import Point
from cuprof.report.cells import APART, doubt_of, keep
from cuprof.report.experiment import TableSpec
from cuprof.report.failures import ending_cell
from cuprof.report.published import PublishedValue
from cuprof.report.study import Study, one_each
from cuprof.report.summary import LEVEL
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.templates import say
from cuprof.report.trials import StudyTrial, by_sure_time, grouped, rank_of
from cuprof.report.units import QUANTITIES, Scale, choose_scale, format_ratio, point_label

HEADINGS = {
    "time": "Time",
    "bandwidth": "Bandwidth",
    "share": "Of peak",
    "theoretical_share": "Of data sheet",
    "step_speedup": "Step",
    "cumulative_speedup": "Speedup",
    "total": "Total",
}
PLAIN = ("time", "bandwidth", "share", "theoretical_share", "total")
"""Those of the columns that are quantities of one trial."""
ENOUGH = 40
"""From this many configurations at the reference problem on, the fastest are listed."""
TOP = 10
"""How many of them a variant."""


@dataclass(frozen=True)
class Step:
    """One row to be: a contender's best trial, or its first where none is right.

    Args:
        values: column → value in base units; empty unless the trial is right.
        notes: column of a ratio → what stands below it.
    """

    trial: StudyTrial
    values: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def steps_table(study: Study, spec: TableSpec) -> Table:
    """Return the table of a study's steps at the problem that `where` names, else at the reference problem."""
    trials = keep(study.here if is_of_reference(spec) else study.frame, spec.where)
    problem = trials["problem"].iloc[-1] if len(trials) else study.reference
    return variants_table(study, one_each(trials[[each == problem for each in trials["problem"]]]), problem, spec)


def is_of_reference(spec: TableSpec) -> bool:
    """Return whether a table shows the variants at the reference problem."""
    return spec.kind == "steps" and not any(fact.startswith("problem") for fact in spec.where)


def variants_table(
    study: Study, standings: pd.DataFrame, problem: Point, spec: TableSpec, *, notes: bool = True
) -> Table:
    """Return time, bandwidth, shares of the peaks, step and cumulative speedup and total time of every variant.

    Args:
        standings: a row of the study's frame for each contender, all at the problem.
        notes: whether to explain the columns below the table.
    """
    steps = _steps(study, study.rows(standings))
    published, other = _published(study, spec, problem)
    filled = {name for step in steps for name in step.values}
    always = {"time", "bandwidth", "share", "cumulative_speedup", *(["step_speedup"] if study.experiment.steps else [])}
    measured = [name for name in HEADINGS if name in filled | always]
    shown = [name for name in HEADINGS if any(value.measure == name for value in published)]
    scales = {name: _scale(name, [step.values.get(name) for step in steps], published) for name in HEADINGS}
    devices = dict.fromkeys(value.device or "a device that is not named" for value in published)
    group = f"Published: {', '.join(devices)} (another machine{other})"
    columns = [Column(HEADINGS[name], scales[name].unit, "Measured here") for name in measured]
    columns += [Column(HEADINGS[name], scales[name].unit, group, published=True) for name in shown]
    fastest = min((step.values["time"] for step in steps if step.values), default=None)
    rows = []
    for step in steps:
        is_fastest, is_base = step.values.get("time", 0) == fastest, step.trial.variant == study.baseline
        cells = (*_measured_cells(step, measured, scales), *_published_cells(step.trial, shown, scales, published))
        mark = "fastest" if is_fastest else "baseline" if is_base else ""
        rows.append(Row(step.trial.contender, _below(study, step.trial), cells, mark))
    title = f"{spec.title or 'Variants'} at {study.experiment.problem_name(problem) or point_label(problem)}"
    return Table(title, "Variant", tuple(columns), tuple(rows), _notes(study, spec, steps, published) if notes else ())


def _steps(study: Study, trials: Sequence[StudyTrial]) -> list[Step]:
    """Return the rows in order: the study's steps, other kernels, libraries, CPU."""
    places = {name: place for place, name in enumerate(study.experiment.steps)}
    order = {trial: (places.get(trial.variant, len(places)), rank_of(trial.kind), trial.order) for trial in trials}
    study.foresee_speedups(trials)
    rows, before = [], None
    for trial in sorted(trials, key=order.__getitem__):
        bases = {"cumulative_speedup": study.baseline_of(trial)}
        if trial.is_right and trial.variant in places:
            bases["step_speedup"] = before if before and before.device == trial.device else None
            before = trial
        rows.append(_step(study, trial, bases) if trial.is_right else Step(trial))
    return rows


def _step(study: Study, trial: StudyTrial, bases: Mapping[str, StudyTrial | None]) -> Step:
    values = {name: getattr(trial, QUANTITIES[name].attribute) for name in PLAIN}
    notes = {}
    for name, base in bases.items():
        if base is not None and base is not trial:
            ratio, verdict = study.ratio(base, trial), study.verdict(base, trial)
            values[name] = 1 / ratio if ratio else None
            words = verdict.value if verdict in LEVEL else ""
            notes[name] = ", ".join(filter(None, [words, doubt_of(base, trial)]))
            if study.are_apart(base, trial):
                notes[name] = APART
    return Step(trial, {name: value for name, value in values.items() if value is not None}, notes)


def _published(study: Study, spec: TableSpec, problem: Point) -> tuple[list[PublishedValue], str]:
    """Return the published values to show, and what to add to their heading when they are of another problem."""
    table = [value for value in study.published if value.table == spec.published and value.measure in HEADINGS]
    here = [value for value in table if value.fits(problem)]
    if here or not table:
        return here, ""
    last = Point(table[-1].problem)
    return [value for value in table if Point(value.problem) == last], f", at {point_label(last)}"


def _scale(name: str, values: Sequence[float | None], published: Sequence[PublishedValue]) -> Scale:
    """Return the unit of one column; the published column has the same one, so that the two can be compared."""
    both = [*values, *(value.value for value in published if value.measure == name)]
    return choose_scale(QUANTITIES[name].dimension if name in QUANTITIES else "ratio", both)


def _measured_cells(step: Step, columns: Sequence[str], scales: Mapping[str, Scale]) -> list[Cell]:
    trial = step.trial
    if not step.values:
        return [ending_cell(trial, with_error=True, span=len(columns))]
    cells = []
    for name in columns:
        value, note = step.values.get(name), step.notes.get(name, "")
        if value is None:
            cells.append(replace(MISSING, note=note))
            continue
        if name == "time":
            bounds = trial.interval or ()
            note = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(map(scales[name].format, bounds)) or trial.few_samples
        share = min(value, 1.0) if name.endswith("share") else None
        cells.append(Cell(scales[name].format(value), note=note, share=share))
    return cells


def _published_cells(
    trial: StudyTrial, columns: Sequence[str], scales: Mapping[str, Scale], published: Sequence[PublishedValue]
) -> list[Cell]:
    cells = []
    for name in columns:
        found = next((value for value in published if value.measure == name and value.variant == trial.variant), None)
        text = "–" if found is None else found.text if found.value is None else scales[name].format(found.value)
        cells.append(Cell(text, "number" if found else "missing"))
    return cells


def _below(study: Study, trial: StudyTrial) -> str:
    """Return what stands below a variant's name."""
    kind = trial.kind if trial.kind not in ("kernel", trial.origin.lower()) else ""
    tunables = trial.tunables_label if trial.is_right else ""
    return " · ".join(filter(None, [trial.origin, kind, tunables, study.age(trial)]))


def _notes(
    study: Study, spec: TableSpec, steps: Sequence[Step], published: Sequence[PublishedValue]
) -> tuple[str, ...]:
    timed = [step.trial for step in steps if step.values]
    facts: dict[str, Any] = {
        "are_few": any(trial.few_samples for trial in timed),
        "measures": sorted({trial.measure.value for trial in timed if trial.measure}),
        "is_above_peak": any(step.values.get("share", 0.0) > 1 for step in steps),
        "has_published": bool(published),
        "ratios": ", ".join(note for step in steps for note in step.notes.values()).split(", "),
    }
    return (*say("tables.txt", "steps", study, facts), *filter(None, [spec.note]))


def fastest_table(study: Study) -> Table | None:
    """Return the ten fastest configurations of each variant at the reference problem; None where few were tried."""
    has_tunables = np.array([len(point) > 0 for point in study.here["tunables"]], dtype=bool)
    tried = study.here[study.here["is_right"] & has_tunables]
    if len(tried) <= ENOUGH:
        return None
    ranked = tried.sort_values("sure_ns", kind="stable").groupby("contender", sort=False).head(TOP)
    fastest = grouped(study.rows(ranked), lambda trial: trial.contender)
    listed = [trial for name in dict.fromkeys(tried["contender"]) for trial in fastest[name]]
    best_ns = float(tried["sure_ns"].min())
    scale = choose_scale("time", [best_ns])
    rows = []
    for trial in listed:
        time = Cell(scale.format(trial.median_ns), note=trial.few_samples)
        cells = (time, Cell(format_ratio(by_sure_time(trial) / best_ns)))
        mark = "fastest" if by_sure_time(trial) == best_ns else ""
        rows.append(Row(trial.contender, trial.tunables_label, cells, mark))
    few = any(trial.few_samples for trial in study.rows(tried))
    notes = say("tables.txt", "fastest", TOP, len(tried), listed[0].problem_name, few)
    columns = (Column(f"time {scale.unit}"), Column("× the fastest"))
    return Table("Fastest configurations", "Variant", columns, tuple(rows), tuple(notes), folded=True)
