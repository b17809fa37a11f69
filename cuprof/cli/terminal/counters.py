"""Counters by trial: a row a trial, a column a metric, the metrics' names and units in a legend below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuprof.cli.terminal.table import Column, Line, Row, layout
from cuprof.ncu.knowledge import find_metric


@dataclass(frozen=True)
class CounterRow:
    """One trial's counters.

    Args:
        values: metric → value, or text, or None where there is none.
        note: why there are none.
    """

    label: str
    values: Mapping[str, float | str | None] = field(default_factory=dict)
    note: str = ""


def counter_lines(
    rows: Sequence[CounterRow], metrics: Sequence[str], units: Mapping[str, str], width: int
) -> list[Line]:
    """Return the table, a column a metric, and its legend; numbers are never cut off, however wide it gets."""
    marks = [f"[{place}]" for place in range(1, len(metrics) + 1)]
    notes = [Column("note", "left")] if any(row.note for row in rows) else []
    columns = [Column("trial", "left"), *map(Column, marks), *notes]
    cells = [
        (
            row.label,
            *("" if row.note else format_value(row.values.get(name)) for name in metrics),
            *([row.note] if notes else []),
        )
        for row in rows
    ]
    lines = [*layout(columns, [Row(each) for each in cells], width), Line("")]
    for mark, name in zip(marks, metrics, strict=True):
        known = find_metric(name)
        unit = f" in {units[name]}" if units.get(name) else ""
        lines.append(Line(f"{mark} {name}{unit}{': ' + known.meaning if known else ''}"))
    return lines


def format_value(value: float | str | None) -> str:
    """Return a value as text: whole numbers in full, others to six digits, "–" for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"
