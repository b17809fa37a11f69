"""What a page says, as plain data: every figure's traces and words, every table's cells, every sentence."""

from __future__ import annotations

import json
import math
from typing import Any

from cuprof.report.counter_section import counter_section
from cuprof.report.page import study_figures, study_tables
from cuprof.report.study import Pair, Study
from cuprof.report.summary import conclude, failure_groups

TRACE = (
    "type",
    "name",
    "mode",
    "orientation",
    "text",
    "customdata",
    "hovertemplate",
    "q1",
    "q3",
    "median",
    "boxpoints",
)
AXIS = ("type", "range", "tickvals", "ticktext", "dtick", "rangemode", "autorange", "tickangle")


def page_data(study: Study) -> Any:
    """Return what the study's page says, without the names of our own classes and without what looks alone."""
    figures = [
        {
            "id": figure.id,
            "title": figure.title,
            "text": figure.text,
            "notes": figure.notes,
            "traces": [_trace(trace) for trace in figure.data],
            "layout": _layout(figure.layout),
        }
        for figure in study_figures(study)
    ]
    found = {
        "figures": figures,
        "tables": [_table(table) for table in study_tables(study)],
        "conclusions": conclude(study),
        "comparisons": comparison_data(study),
        "counters": _counters(counter_section(study)),
        "failures": failure_groups(study),
        "provenance": study.provenance,
    }
    return json.loads(json.dumps(found, default=str), parse_float=lambda text: float(f"{float(text):.9g}"))


def _trace(trace: Any) -> Any:
    found = {name: trace[name] for name in TRACE if trace.get(name) not in (None, "")}
    found |= {name: _values(trace[name]) for name in ("x", "y", "z") if trace.get(name) is not None}
    for name in ("error_x", "error_y"):
        if trace.get(name):
            found[name] = [_values(trace[name].get(part)) for part in ("arrayminus", "array")]
    for part, names in {"marker": ("color", "symbol"), "line": ("color", "dash")}.items():
        found |= {f"{part}.{name}": trace[part][name] for name in names if name in trace.get(part, {})}
    return found


def _values(values: Any) -> Any:
    """Return a column of values as text in a line, so that a changed figure is a changed line."""
    if values and isinstance(values[0], list):
        return [_values(row) for row in values]
    return " | ".join(
        "" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in values
    )


def _layout(layout: Any) -> Any:
    found: dict[str, Any] = {"height": layout["height"]}
    for name in ("xaxis", "yaxis"):
        axis = layout.get(name, {})
        found[name] = {key: axis[key] for key in AXIS if axis.get(key) is not None}
        found[name]["title"] = axis.get("title", {}).get("text", "")
    found["shapes"] = [[shape.get(key) for key in ("x0", "x1", "y0", "y1")] for shape in layout.get("shapes", ())]
    found["annotations"] = [each["text"] for each in layout.get("annotations", ())]
    return found


def _table(table: Any) -> Any:
    columns = [[column.heading, column.unit, column.group, column.published] for column in table.columns]
    rows = [[row.heading, row.note, row.mark, *map(_cell, row.cells)] for row in table.rows]
    words = {"title": table.title, "corner": table.corner, "notes": table.notes, "folded": table.folded}
    return {**words, "columns": columns, "rows": rows}


def _cell(cell: Any) -> str:
    """Return a cell as text: what is shown, then what stands below it, its kind, its bar and its width."""
    more = [cell.note, cell.published, "" if cell.kind == "number" else cell.kind]
    more += [f"{cell.share:.4f}" if cell.share is not None else "", f"span {cell.span}" if cell.span > 1 else ""]
    return " / ".join([cell.text, *filter(None, more)])


def _counters(section: Any) -> Any:
    return section | {"overview": _table(section["overview"]) if section["overview"] else None}


def comparison_data(study: Study) -> list[dict[str, Any]]:
    """Return how every contender compares with the baseline at the reference problem, with all digits."""
    data = []
    for trial in study.best:
        base = study.baseline_of(trial)
        compared = Pair(study, base, trial).compared if base is not None and base is not trial else None
        if compared is not None:
            facts = {name: getattr(compared, name) for name in ("measure", "verdict", "error_rate")}
            numbers = {name: getattr(compared, name) for name in ("ratio", "low", "high")}
            facts |= {name: value if math.isfinite(value) else None for name, value in numbers.items()}
            data.append({"base": compared.base_identity, "new": compared.new_identity, **facts})
    return data
