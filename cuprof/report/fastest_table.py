"""The fastest configurations of each variant, where more were tried than a page has room for."""

from __future__ import annotations

from cuprof.report.study import Study
from cuprof.report.tables import Cell, Column, Row, Table
from cuprof.report.trials import by_sure_time, grouped
from cuprof.report.units import choose_scale, format_ratio

ENOUGH = 40
"""So many configurations at the reference problem are tried before the fastest are listed."""
TOP = 10


def fastest_table(study: Study) -> Table | None:
    """Return the ten fastest configurations of each variant at the reference problem; None where few were tried."""
    trials = [trial for trial in study.right_here if trial.tunables and trial.median_ns]
    if len(trials) <= ENOUGH:
        return None
    best_ns = min(by_sure_time(trial) for trial in trials)
    scale = choose_scale("time", [best_ns])
    rows = []
    for contender, tried in grouped(trials, lambda trial: trial.contender).items():
        for trial in sorted(tried, key=by_sure_time)[:TOP]:
            sure_ns = by_sure_time(trial)
            cells = (Cell(scale.format(trial.median_ns), note=trial.few_samples), Cell(format_ratio(sure_ns / best_ns)))
            rows.append(Row(contender, trial.tunables_label, cells, "fastest" if sure_ns == best_ns else ""))
    note = f"The {TOP} fastest of each variant, of {len(trials)} configurations at {trials[0].problem_name}."
    if any(trial.few_samples for trial in trials):
        note += " Of samples too few for an interval the longest counts."
    columns = (Column(f"time {scale.unit}"), Column("× the fastest"))
    return Table("Fastest configurations", "Variant", columns, tuple(rows), (note,), folded=True)
