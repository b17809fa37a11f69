"""What the counters of a study say at a glance: a table of the telling ones, and topics for each pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuprof.ncu.metrics import TOPICS, find_metric, heading_of, list_telling
from cuprof.report.cache_modes import why_uncounted
from cuprof.report.counter_sentences import describe_change, format_counter
from cuprof.report.library_profiles import WHY
from cuprof.report.study import Study
from cuprof.report.tables import Cell, Column, Row, Table
from cuprof.report.trials import StudyTrial
from cuprof.report.undefined_ratios import explain
from cuprof.report.units import Scale, choose_scale

BYTES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))


def overview(study: Study, trials: Sequence[StudyTrial], fewest: int = 3) -> Table | None:
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
    scales = {metric: _scale(study, metric, found) for metric, found in shown.items()}
    rows = []
    for trial in trials:
        cells = [Cell(scale.format(trial.median_ns))]
        if study.counters.of(trial):
            cells += [_cell(study, trial, metric, found, scales[metric][1]) for metric, found in shown.items()]
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


def _cell(study: Study, trial: StudyTrial, metric: str, found: Sequence[float | None], divisor: float) -> Cell:
    value = study.counters.value_of(trial, metric)
    if value is None:
        return Cell(why_uncounted(study, trial, metric) or "–", "missing")
    whole = all(each is None or (each / divisor).is_integer() for each in found)
    return Cell(Scale("", divisor, 0 if whole else 2).format(value))


def _other_algorithm(study: Study, trial: StudyTrial, span: int) -> Cell:
    shown = next((other for (identity, _), other in study.counters.other_algorithm.items() if identity == trial.id), "")
    return Cell(f"{WHY} than was timed: {shown}", "missing", span=span)


def topics(before_after: Mapping[str, tuple[float | None, float | None]]) -> tuple[tuple[str, str], ...]:
    """Return (topic, sentences) for the topics that both trials have counters of: grid, DRAM, shared memory, …"""
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for metric, pair in before_after.items():
        known = find_metric(metric)
        if known is not None and known.topic:
            found[known.topic].append(describe_change(metric, *pair))
    return tuple((topic, " ".join(filter(None, said))) for topic, said in found.items() if any(said))


def _scale(study: Study, metric: str, values: Sequence[float | None]) -> tuple[str, float]:
    """Return the unit of a column and its size: bytes in thousands or millions, all else as Nsight gives it."""
    unit = study.counters.unit_of(metric)
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if unit != "byte" or largest < 1e3:
        return unit, 1.0
    prefix, size = next(each for each in reversed(BYTES) if largest >= each[1])
    return f"{prefix}B", size
