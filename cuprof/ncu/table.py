"""Show counters by trial as text: a row a trial, a column a metric, the names and units in a legend below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuprof.ncu.metrics import find_metric


@dataclass(frozen=True)
class CounterRow:
    """One trial's counters.

    Args:
        values: metric → value, or text, or None where there is none.
        note: shown in place of values: why there are none.
    """

    label: str
    values: Mapping[str, float | str | None] = field(default_factory=dict)
    note: str = ""


def format_counters(rows: Sequence[CounterRow], metrics: Sequence[str], units: Mapping[str, str]) -> str:
    """Return the table; numbers are never cut off, however wide it gets.

    Args:
        rows: in the order shown.
        metrics: columns, in order.
        units: metric → unit.
    """
    marks = [f"[{place}]" for place in range(1, len(metrics) + 1)]
    cells = [[format_value(row.values.get(name)) for name in metrics] for row in rows]
    widths = [max(map(len, (mark, *(row[place] for row in cells)))) for place, mark in enumerate(marks)]
    first = max(map(len, ("trial", *(row.label for row in rows))))
    lines = [
        "  ".join([f"{'trial':{first}}", *(f"{mark:>{width}}" for mark, width in zip(marks, widths, strict=True))])
    ]
    for row, values in zip(rows, cells, strict=True):
        shown = [row.note] if row.note else [f"{text:>{width}}" for text, width in zip(values, widths, strict=True)]
        lines.append("  ".join([f"{row.label:{first}}", *shown]))
    lines.append("")
    for mark, name in zip(marks, metrics, strict=True):
        known = find_metric(name)
        unit = f" in {units[name]}" if units.get(name) else ""
        lines.append(f"{mark} {name}{unit}{': ' + known.meaning if known else ''}")
    return "\n".join(lines)


def format_value(value: float | str | None) -> str:
    """Return a value as text: whole numbers in full, others to six digits, "–" for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"
