"""Every problem of a sweep: a heat map of variants by problems, and each problem's own table for a click on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuprof.core.records import NOT_RUN
from cuprof.core.text import count
from cuprof.report.experiment import TableSpec
from cuprof.report.failures import words_of
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.trials import StudyTrial, best_of_tunables, by_sure_time, grouped
from cuprof.report.units import Scale, choose_scale, format_value, shorten
from cuprof.report.variants_table import variants_table
from cuprof.statistics import Verdict

MOST_PROBLEMS, MOST_VARIANTS, MOST_CHARACTERS = 400, 24, 120_000
"""Together they keep a page within 2 MB: rows of the map, its columns, and the texts of all problems' own tables."""
SLOWEST = 4.0
"""From this many times the fastest time on, a cell has the darkest shade."""
LEVEL = (Verdict.SAME, Verdict.UNDECIDED)


@dataclass(frozen=True)
class Overview:
    """The map, a row a problem, and the problems' tables in the order of its rows.

    Args:
        chosen: the row whose table is shown first, the reference problem's.
    """

    table: Table
    problems: tuple[Table, ...]
    chosen: int


def make_overview(study: Study) -> Overview | None:
    """Return what every problem has; None for a sweep of one problem."""
    groups = grouped(study.trials, lambda trial: trial.problem)
    if len(groups) < 2:
        return None
    best = grouped(best_of_tunables(study.right), lambda trial: trial.problem)
    shown = dict(list(groups.items())[:MOST_PROBLEMS])
    names = _names(study)
    study.foresee_speedups(trial for problem in shown for trial in best.get(problem, ()))
    fastest_ns = [min(each.median_ns or 0.0 for each in best[problem]) for problem in shown if problem in best]
    scale = choose_scale("time", fastest_ns)
    rows = [_row(study, names, trials, best.get(problem, []), scale) for problem, trials in shown.items()]
    columns = [Column("Fastest"), *(Column(name, group=f"Time, {scale.unit}") for name in names)]
    notes = _notes(study, len(groups), len(names))
    table = Table("Time by problem and variant", "Problem", tuple(columns), tuple(rows), notes)
    chosen = list(shown).index(study.reference) if study.reference in shown else 0
    return Overview(table, _tables(study, list(shown.values()), chosen), chosen)


def _names(study: Study) -> list[str]:
    """Return the contenders with a right result anywhere, in the family's order; of too many those with short times."""
    by_time = sorted(study.right, key=lambda trial: (trial.variant != study.baseline, by_sure_time(trial)))
    kept = set(list(dict.fromkeys(trial.contender for trial in by_time))[:MOST_VARIANTS])
    in_order = dict.fromkeys(trial.contender for trial in sorted(study.right, key=lambda trial: trial.order))
    return [name for name in in_order if name in kept]


def _row(
    study: Study, names: Sequence[str], trials: Sequence[StudyTrial], best: Sequence[StudyTrial], scale: Scale
) -> Row:
    ended = {trial.contender: trial for trial in trials} | {trial.contender: trial for trial in best}
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
        harmless = trial.is_expected or trial.state in NOT_RUN
        return Cell(words_of(trial), "missing" if harmless else "failed")
    cell = Cell(scale.format(trial.median_ns), note=", ".join(filter(None, [trial.doubt, study.age(trial)])))
    if trial is winner:
        return replace(cell, mark="★", heat=0.0)
    ratio = by_sure_time(trial) / by_sure_time(winner)
    mark = "≈" if study.verdict(winner, trial) in LEVEL else ""
    return replace(cell, mark=mark, heat=min(1.0, max(0.0, (ratio - 1) / (SLOWEST - 1))))


def _tables(study: Study, groups: Sequence[Sequence[StudyTrial]], chosen: int) -> tuple[Table, ...]:
    """Return each problem's table; the reference problem's comes first where not all have room."""
    tables: dict[int, Table] = {}
    characters = 0
    for place in sorted(range(len(groups)), key=lambda place: place != chosen):
        table = variants_table(study, groups[place], groups[place][0].problem, TableSpec(), notes=False)
        characters += sum(len(row.heading) + len(row.note) + sum(map(_length, row.cells)) for row in table.rows)
        if characters > MOST_CHARACTERS and tables:
            table = replace(
                table, rows=(), notes=("This page has no room for its table: cuprof query timings has it.",)
            )
        tables[place] = table
    return tuple(tables[place] for place in range(len(groups)))


def _length(cell: Cell) -> int:
    return len(cell.text) + len(cell.note)


def _notes(study: Study, problems: int, names: int) -> tuple[str, ...]:
    right = len({trial.contender for trial in study.right})
    others = len({trial.contender for trial in study.trials}) - right
    notes = [
        "Times are of each variant's fastest tunables. ★ marks the fastest, ≈ what cuprof compare does not tell apart "
        f"from it; the darker a cell, the longer its time, up to {SLOWEST:.0f} times the fastest."
    ]
    if problems > MOST_PROBLEMS:
        notes.append(f"The first {MOST_PROBLEMS} of {problems} problems are shown.")
    if right > names:
        notes.append(f"{names} of {count(right, 'variant')} are shown, those with the shortest times.")
    if others:
        notes.append(f"{count(others, 'variant')} without any right, timed result: see Failed and skipped.")
    return tuple(notes)
