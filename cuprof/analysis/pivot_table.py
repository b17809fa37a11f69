"""A table over any two sets of facts: problems by variants, coarsening factors by sizes, …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cuprof.analysis.cells import Key, candidates, choose, describe, find_published, ordered
from cuprof.analysis.experiment import TableSpec
from cuprof.analysis.facts import fact_label, value_label
from cuprof.analysis.failures import WORDS
from cuprof.analysis.published import PublishedValue
from cuprof.analysis.quantities import QUANTITIES, Dimension, Scale, choose_scale
from cuprof.analysis.study import Study
from cuprof.analysis.tables import MISSING, Cell, Column, Row, Table

NO_COUNTER = "No value of {} is stored for these trials; python -m cuprof ncu-collect collects counters."


def pivot_table(study: Study, spec: TableSpec) -> Table:
    """Return one quantity or counter, a row and a column for each combination of the facts the table asks for."""
    facts = (*spec.rows, *spec.columns)
    chosen = choose(candidates(study, spec.where, spec.value), facts)
    split = len(spec.rows)
    row_keys, column_keys = ordered(key[:split] for key in chosen), ordered(key[split:] for key in chosen)
    heading, unit, dimension = describe(study, spec.value)
    published = {
        key: find_published(study, spec.published, spec.value, trial, facts)
        for key, trial in chosen.items()
        if spec.published
    }
    scales = {key: _scale(chosen, published, key, split, unit, dimension) for key in column_keys}
    group = f"{heading}, by {' and '.join(fact_label(fact) for fact in spec.columns)}"
    columns = [Column(_label(key), scales[key].unit or unit, group) for key in column_keys]
    found = any(pd.notna(trial["value"]) for trial in chosen.values())
    if not found and spec.value not in QUANTITIES and not any(published.values()):
        return Table(spec.title or heading, "", (), (), (*_notes(spec, {}, {}), NO_COUNTER.format(spec.value)))
    rows = [
        Row(
            _label(key),
            "",
            tuple(
                _cell(chosen.get(key + column), published.get(key + column), scales[column]) for column in column_keys
            ),
        )
        for key in row_keys
    ]
    if spec.sum is not None:
        rows.append(_sum(spec, row_keys, column_keys, chosen, scales))
    corner = " · ".join(fact_label(fact) for fact in spec.rows)
    return Table(
        spec.title or f"{heading} by {corner}", corner, tuple(columns), tuple(rows), _notes(spec, chosen, published)
    )


def _label(key: Key) -> str:
    return " · ".join(value_label(value) for value in key)


def _scale(
    chosen: Mapping[Key, Mapping[Any, Any]],
    published: Mapping[Key, PublishedValue | None],
    column: Key,
    split: int,
    unit: str,
    dimension: Dimension,
) -> Scale:
    values = [trial["value"] for key, trial in chosen.items() if key[split:] == column]
    values += [found.value for key, found in published.items() if found and key[split:] == column]
    if unit or dimension == "plain":
        whole = all(float(value).is_integer() for value in values if value is not None and pd.notna(value))
        return Scale(unit, 1.0, 0 if whole else 2)
    return choose_scale(dimension, values)


def _cell(trial: Mapping[Any, Any] | None, found: PublishedValue | None, scale: Scale) -> Cell:
    if trial is None:
        return MISSING
    report = ""
    if found is not None:
        report = (
            f"{found.device or 'published'}: {scale.format(found.value) if found.value is not None else found.text}"
        )
    if pd.notna(trial["value"]):
        note = trial["tunables_label"] if trial["alternatives"] > 1 else ""
        return Cell(scale.format(trial["value"]), note=note, published=report)
    if trial["state"] == "ok":
        if trial["expected"] == "wrong":
            return Cell("known to be wrong; its check passed here", "failed", published=report)
        return Cell("–", "missing", published=report)
    return Cell(
        WORDS.get(trial["state"], trial["state"]),
        "missing" if trial["state"] == "skipped" else "failed",
        published=report,
    )


def _sum(
    spec: TableSpec,
    row_keys: Sequence[Key],
    column_keys: Sequence[Key],
    chosen: Mapping[Key, Mapping[Any, Any]],
    scales: Mapping[Key, Scale],
) -> Row:
    """Return the last row: Σ value × repeats, only where every row has a value."""
    assert spec.sum is not None
    cells = []
    for column in column_keys:
        values = [chosen[key + column]["value"] if key + column in chosen else None for key in row_keys]
        repeats = [spec.sum.repeats.get(_label(key), 1) for key in row_keys]
        needed = [(value, times) for value, times in zip(values, repeats, strict=True) if times]
        known = [float(value) * times for value, times in needed if value is not None and pd.notna(value)]
        total = sum(known) if needed and len(known) == len(needed) else None
        cells.append(Cell(scales[column].format(total)) if total is not None else Cell("not complete", "missing"))
    return Row(spec.sum.label, "", tuple(cells), "sum")


def _notes(
    spec: TableSpec, chosen: Mapping[Key, Mapping[Any, Any]], published: Mapping[Key, PublishedValue | None]
) -> tuple[str, ...]:
    notes = [spec.note] if spec.note else []
    if any(trial["alternatives"] > 1 for trial in chosen.values()):
        notes.append(
            "Where a cell stands for several choices of tunables, it shows the fastest, named below the number."
        )
    if any(published.values()):
        notes.append("Small print after a device's name is a published figure, measured by others on that machine.")
    if spec.sum is not None and spec.sum.repeats:
        notes.append(
            f"{spec.sum.label}: the rows added up, "
            + ", ".join(f"{name} × {times}" for name, times in spec.sum.repeats.items() if times != 1)
            + "."
        )
    return tuple(notes)
