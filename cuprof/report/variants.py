"""Tables of variants: a study's steps beside published figures, every problem's, a search's fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from cuprof.core.point import Point
from cuprof.report.experiment import TableSpec
from cuprof.report.grid import keep
from cuprof.report.published import PublishedValue
from cuprof.report.study import Pair, Study, one_each
from cuprof.report.tables import APART, MISSING, Cell, CellKind, Column, Row, Table, ending_cell
from cuprof.report.templates import say
from cuprof.report.trials import StudyTrial, rank_of
from cuprof.report.units import QUANTITIES, Scale, choose_scale, format_ratio, format_value, shorten

HEADINGS = {
    "time": "Time",
    "bandwidth": "Bandwidth",
    "share": "Of peak",
    "theoretical_share": "Of data sheet",
    "step_speedup": "Step",
    "cumulative_speedup": "Speedup",
    "total": "Total",
}
ENOUGH = 40
"""From this many configurations at the reference problem on, the fastest are listed."""
TOP = 10
"""How many of them a variant."""
MOST_PROBLEMS, MOST_VARIANTS, MOST_CHARACTERS = 400, 24, 120_000
"""Together they keep a page within 2 MB: rows of the map, its columns, and the texts of all problems' own tables."""
SLOWEST = 4.0
"""From this many times the fastest time on, a cell has the darkest shade."""


class Step(NamedTuple):
    """One row to be: a contender's best trial, or its first where none is right.

    Args:
        values: column → value in base units; empty unless the trial is right.
        notes: column of a ratio → what stands below it.
    """

    trial: StudyTrial
    values: Mapping[str, float]
    notes: Mapping[str, str]


def steps_table(study: Study, spec: TableSpec) -> Table:
    """Return the table of a study's steps at the problem that `where` names, else at the reference problem."""
    trials = keep(study.here if is_of_reference(spec) else study.frame, spec.where)
    return variants_table(study, one_each(trials[trials["at"].isin(trials["at"].tail(1))]), spec)


def is_of_reference(spec: TableSpec) -> bool:
    """Return whether a table shows the variants at the reference problem."""
    return spec.kind == "steps" and not any(fact.startswith("problem") for fact in spec.where)


def variants_table(study: Study, standings: pd.DataFrame, spec: TableSpec) -> Table:
    """Return time, bandwidth, shares of the peaks, step and cumulative speedup and total time of every variant.

    Args:
        standings: a row of the study's frame for each contender, all at one problem.
    """
    problem = standings["problem"].iloc[0] if len(standings) else study.reference
    steps = _steps(study, study.rows(standings))
    published, other = _published(study, spec, problem)
    filled = {name for step in steps for name in step.values}
    always = {"time", "bandwidth", "share", "cumulative_speedup", *(["step_speedup"] if study.experiment.steps else [])}
    measured = [name for name in HEADINGS if name in filled | always]
    shown = [name for name in HEADINGS if any(value.measure == name for value in published)]
    scales = {}
    for name in HEADINGS:  # of both, so that the two can be compared
        both = [step.values.get(name) for step in steps] + [each.value for each in published if each.measure == name]
        scales[name] = choose_scale(QUANTITIES[name].dimension if name in QUANTITIES else "ratio", both)
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
    title = f"{spec.title or 'Variants'} at {study.experiment.problem_name(problem) or problem.label}"
    ratios = ", ".join(note for step in steps for note in step.notes.values()).split(", ")
    timed = [step for step in steps if step.values]
    notes = [*say("tables.txt", "steps", study, timed, bool(published), ratios), *filter(None, [spec.note])]
    return Table(title, "Variant", tuple(columns), tuple(rows), tuple(notes))


def _steps(study: Study, trials: Sequence[StudyTrial]) -> list[Step]:
    """Return the rows in order: the study's steps, other kernels, libraries, CPU."""
    places = {name: place for place, name in enumerate(study.experiment.steps)}
    order = {trial: (places.get(trial.variant, len(places)), rank_of(trial.kind), trial.order) for trial in trials}
    ordered = sorted(trials, key=order.__getitem__)
    speedups = _speedups(study, ordered)
    study.foresee(pair for own in speedups for pair in own.values())
    rows = []
    for trial, own in zip(ordered, speedups, strict=True):
        values, notes = dict[str, float | None](), dict[str, str]()
        if trial.is_right:
            values = {name: getattr(trial, QUANTITIES[name].attribute) for name in HEADINGS if name in QUANTITIES}
        for name, pair in own.items():
            words = pair.verdict if pair.is_level else ""
            values[name] = pair.speedup
            notes[name] = APART if pair.is_apart else ", ".join(filter(None, [words, pair.remark]))
        rows.append(Step(trial, {name: value for name, value in values.items() if value is not None}, notes))
    return rows


def _speedups(study: Study, trials: Sequence[StudyTrial]) -> list[dict[str, Pair]]:
    """Return of each right trial the pair with the baseline and, of a step, with the step before it."""
    found, before = [], None
    for trial in trials:
        bases = dict[str, StudyTrial | None]()
        if trial.is_right:
            bases["cumulative_speedup"] = study.baseline_of(trial)
        if trial.is_right and trial.variant in study.experiment.steps:
            bases["step_speedup"] = before if before and before.device == trial.device else None
            before = trial
        found.append({name: Pair(study, base, trial) for name, base in bases.items() if base and base is not trial})
    return found


def _published(study: Study, spec: TableSpec, problem: Point) -> tuple[list[PublishedValue], str]:
    """Return the published values to show, and what to add to their heading when they are of another problem."""
    table = [value for value in study.published if value.table == spec.published and value.measure in HEADINGS]
    here = [value for value in table if value.fits(problem)]
    if here or not table:
        return here, ""
    last = Point(table[-1].problem)
    return [value for value in table if Point(value.problem) == last], f", at {last.label}"


def _measured_cells(step: Step, columns: Sequence[str], scales: Mapping[str, Scale]) -> list[Cell]:
    trial = step.trial
    if not step.values:
        return [ending_cell(trial, with_error=True, span=len(columns))]
    bounds = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(map(scales["time"].format, trial.interval or ()))
    notes, cells = {"time": bounds or trial.few_samples, **step.notes}, []
    for name in columns:
        value = step.values.get(name)
        share = min(value, 1.0) if value is not None and name.endswith("share") else None
        kind: CellKind = "missing" if value is None else "number"
        cells.append(Cell(scales[name].format(value), kind, notes.get(name, ""), share=share))
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
    kind = trial.kind if trial.kind not in ("kernel", trial.origin.lower()) else ""
    tunables = trial.tunables.label if trial.is_right else ""
    return " · ".join(filter(None, [trial.origin, kind, tunables, study.age(trial)]))


def fastest_table(study: Study) -> Table | None:
    """Return the ten fastest configurations of each variant at the reference problem; None where few were tried."""
    tried = study.here[study.here["is_right"] & (study.here["tunables"].map(len) > 0)]
    if len(tried) <= ENOUGH:
        return None
    ranked = tried.assign(place=pd.factorize(tried["contender"])[0]).sort_values(["place", "sure_ns"])
    listed = study.rows(ranked.groupby("place").head(TOP))
    best_ns = float(tried["sure_ns"].min())
    scale = choose_scale("time", [best_ns])
    rows = []
    for trial in listed:
        time = Cell(scale.format(trial.median_ns), note=trial.few_samples)
        cells = (time, Cell(format_ratio(trial.sure_ns / best_ns)))
        mark = "fastest" if trial.sure_ns == best_ns else ""
        rows.append(Row(trial.contender, trial.tunables.label, cells, mark))
    few = any(trial.few_samples for trial in study.rows(tried))
    notes = say("tables.txt", "fastest", TOP, len(tried), listed[0].problem_name, few)
    columns = (Column(f"time {scale.unit}"), Column("× the fastest"))
    return Table("Fastest configurations", "Variant", columns, tuple(rows), tuple(notes), folded=True)


def make_overview(study: Study) -> tuple[Table, list[Table], int | None] | None:
    """Return a table with a row a problem, and the problems' own tables in that order; None for a sweep of one problem.

    The number is that of the problem whose table is shown first, the reference problem's; None where the page has that
    table already.
    """
    groups = [group for _, group in study.standings.groupby("at")]
    if len(groups) < 2:
        return None
    shown = groups[:MOST_PROBLEMS]
    trials = [study.rows(group) for group in shown]
    by_time = sorted(study.fastest, key=lambda trial: (trial.variant != study.baseline, trial.sure_ns))
    kept = list(dict.fromkeys(trial.contender for trial in by_time))[:MOST_VARIANTS]
    names = [name for name in dict.fromkeys(trial.contender for trial in study.fastest) if name in kept]
    study.foresee(study.pair_of(trial) for group in trials for trial in group)
    right = [[trial for trial in group if trial.is_right] for group in trials]
    scale = choose_scale("time", [min(trial.median_ns or 0.0 for trial in group) for group in right if group])
    rows = [_problem_row(study, names, group, scale) for group in trials]
    columns = [Column("Fastest"), *(Column(name, group=f"Time, {scale.unit}") for name in names)]
    has_right = study.frame.groupby("contender")["is_right"].any()
    counts = len(groups), MOST_PROBLEMS, len(names), int(has_right.sum()), int((~has_right).sum())
    notes = say("tables.txt", "overview", study, f"{SLOWEST:.0f}", *counts)
    table = Table("Time by problem and variant", "Problem", tuple(columns), tuple(rows), tuple(notes))
    reference = next((place for place, group in enumerate(trials) if group[0].problem == study.reference), 0)
    is_there = any(is_of_reference(spec) for spec in study.experiment.tables)
    return table, _problem_tables(study, shown, reference), None if is_there else reference


def _problem_row(study: Study, names: Sequence[str], trials: Sequence[StudyTrial], scale: Scale) -> Row:
    ended = {trial.contender: trial for trial in trials}
    best = sorted((trial for trial in trials if trial.is_right), key=lambda trial: trial.order)
    winner = min(best, key=lambda trial: trial.sure_ns, default=None)
    cells = [Cell("none is right", "missing")]
    if winner is not None:
        study.foresee(Pair(study, winner, each) for each in best)
        time = format_value("time", winner.median_ns)
        cells = [Cell(shorten(winner.contender), "text", note=f"{winner.tunables.label} {time}".strip())]
    cells += [_problem_cell(study, ended.get(name), winner, scale) for name in names]
    return Row(trials[0].problem_name, "", tuple(cells))


def _problem_cell(study: Study, trial: StudyTrial | None, winner: StudyTrial | None, scale: Scale) -> Cell:
    if trial is None:
        return MISSING
    if not trial.is_right or winner is None:
        return ending_cell(trial)
    cell = Cell(scale.format(trial.median_ns), note=", ".join(filter(None, [trial.doubt, study.age(trial)])))
    if trial is winner:
        return replace(cell, mark="★", heat=0.0)
    ratio = trial.sure_ns / winner.sure_ns
    mark = "≈" if Pair(study, winner, trial).is_level else ""
    return replace(cell, mark=mark, heat=min(1.0, max(0.0, (ratio - 1) / (SLOWEST - 1))))


def _problem_tables(study: Study, groups: Sequence[pd.DataFrame], chosen: int) -> list[Table]:
    """Return each problem's table, without notes; the reference problem's comes first where not all have room."""
    tables: dict[int, Table] = {}
    characters = 0
    for place in sorted(range(len(groups)), key=lambda place: place != chosen):
        table = replace(variants_table(study, groups[place], TableSpec()), notes=())
        characters += sum(len(row.heading) + len(row.note) for row in table.rows)
        characters += sum(len(cell.text) + len(cell.note) for row in table.rows for cell in row.cells)
        if characters > MOST_CHARACTERS and tables:
            note = "This page has no room for its table: cuprof query timings has it."
            table = replace(table, rows=(), notes=(note,))
        tables[place] = table
    return [tables[place] for place in range(len(groups))]
