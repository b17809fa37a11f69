"""Every problem of a sweep: a heat map of variants by problems, and each problem's own table for a click on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from cuprof.report.experiment import TableSpec
from cuprof.report.failures import ending_cell
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.templates import say
from cuprof.report.trials import StudyTrial, by_sure_time
from cuprof.report.units import Scale, choose_scale, format_value, shorten
from cuprof.report.variants_table import is_of_reference, variants_table
from cuprof.statistics.verdict import Verdict

MOST_PROBLEMS, MOST_VARIANTS, MOST_CHARACTERS = 400, 24, 120_000
"""Together they keep a page within 2 MB: rows of the map, its columns, and the texts of all problems' own tables."""
SLOWEST = 4.0
"""From this many times the fastest time on, a cell has the darkest shade."""
LEVEL = (Verdict.SAME, Verdict.UNDECIDED, Verdict.SAME_CODE)


@dataclass(frozen=True)
class Overview:
    """The map, a row a problem, and the problems' tables in the order of its rows.

    Args:
        chosen: the row whose table is shown first, the reference problem's; None where the page has that table already.
    """

    table: Table
    problems: tuple[Table, ...]
    chosen: int | None


def make_overview(study: Study) -> Overview | None:
    """Return what every problem has; None for a sweep of one problem."""
    groups = [group for _, group in study.standings.groupby("at")]
    if len(groups) < 2:
        return None
    shown = groups[:MOST_PROBLEMS]
    trials = [study.rows(group) for group in shown]
    names = _names(study)
    study.foresee_speedups(trial for group in trials for trial in group)
    right = [[trial for trial in group if trial.is_right] for group in trials]
    scale = choose_scale("time", [min(trial.median_ns or 0.0 for trial in group) for group in right if group])
    rows = [_row(study, names, group, scale) for group in trials]
    columns = [Column("Fastest"), *(Column(name, group=f"Time, {scale.unit}") for name in names)]
    has_right = study.frame.groupby("contender")["is_right"].any()
    counts = len(groups), MOST_PROBLEMS, len(names), int(has_right.sum()), int((~has_right).sum())
    notes = say("tables.txt", "overview", study, f"{SLOWEST:.0f}", *counts)
    table = Table("Time by problem and variant", "Problem", tuple(columns), tuple(rows), tuple(notes))
    reference = next((place for place, group in enumerate(trials) if group[0].problem == study.reference), 0)
    is_there = any(is_of_reference(spec) for spec in study.experiment.tables)
    return Overview(table, _tables(study, shown, reference), None if is_there else reference)


def _names(study: Study) -> list[str]:
    """Return the contenders with a right result anywhere, in the family's order; of too many those with short times."""
    by_time = sorted(study.fastest, key=lambda trial: (trial.variant != study.baseline, by_sure_time(trial)))
    kept = set(list(dict.fromkeys(trial.contender for trial in by_time))[:MOST_VARIANTS])
    return [name for name in dict.fromkeys(trial.contender for trial in study.fastest) if name in kept]


def _row(study: Study, names: Sequence[str], trials: Sequence[StudyTrial], scale: Scale) -> Row:
    ended = {trial.contender: trial for trial in trials}
    best = sorted((trial for trial in trials if trial.is_right), key=lambda trial: trial.order)
    winner = min(best, key=by_sure_time, default=None)
    cells = [Cell("none is right", "missing")]
    if winner is not None:
        time = format_value("time", winner.median_ns)
        cells = [Cell(shorten(winner.contender), "text", note=f"{winner.tunables_label} {time}".strip())]
    cells += [_cell(study, ended.get(name), winner, scale) for name in names]
    return Row(trials[0].problem_name, "", tuple(cells))


def _cell(study: Study, trial: StudyTrial | None, winner: StudyTrial | None, scale: Scale) -> Cell:
    if trial is None:
        return MISSING
    if not trial.is_right or winner is None:
        return ending_cell(trial)
    cell = Cell(scale.format(trial.median_ns), note=", ".join(filter(None, [trial.doubt, study.age(trial)])))
    if trial is winner:
        return replace(cell, mark="★", heat=0.0)
    ratio = by_sure_time(trial) / by_sure_time(winner)
    mark = "≈" if study.verdict(winner, trial) in LEVEL else ""
    return replace(cell, mark=mark, heat=min(1.0, max(0.0, (ratio - 1) / (SLOWEST - 1))))


def _tables(study: Study, groups: Sequence[pd.DataFrame], chosen: int) -> tuple[Table, ...]:
    """Return each problem's table; the reference problem's comes first where not all have room."""
    tables: dict[int, Table] = {}
    characters = 0
    for place in sorted(range(len(groups)), key=lambda place: place != chosen):
        group = groups[place]
        table = variants_table(study, group, group["problem"].iloc[0], TableSpec(), notes=False)
        characters += sum(len(row.heading) + len(row.note) for row in table.rows)
        characters += sum(len(cell.text) + len(cell.note) for row in table.rows for cell in row.cells)
        if characters > MOST_CHARACTERS and tables:
            note = "This page has no room for its table: cuprof query timings has it."
            table = replace(table, rows=(), notes=(note,))
        tables[place] = table
    return tuple(tables[place] for place in range(len(groups)))
