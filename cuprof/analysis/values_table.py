"""A table of several quantities or counters: a row each, a column for each combination of facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cuprof.analysis.cache_modes import mode_note
from cuprof.analysis.cells import against, candidates, choose, describe, list_published, ordered
from cuprof.analysis.experiment import TableSpec
from cuprof.analysis.facts import fact_label, keep
from cuprof.analysis.launches import launches_text
from cuprof.analysis.pivot_table import cell_of, key_label, not_measured, scale_of, table_notes
from cuprof.analysis.quantities import QUANTITIES
from cuprof.analysis.study import Study
from cuprof.analysis.tables import Column, Row, Table


def values_table(study: Study, spec: TableSpec) -> Table:
    """Return a row for each of the table's `values`, every row in its own unit, launches named where they differ."""
    rows, found_published, chosen_all = [], [], {}
    measured = False
    keys: dict[tuple[Any, ...], None] = {}
    for value in spec.values.values():
        keys |= dict.fromkeys(choose(candidates(against(study, spec.against), spec.where, value), spec.columns))
    column_keys = ordered(keys)
    for name, value in spec.values.items():
        chosen = choose(candidates(against(study, spec.against), spec.where, value), spec.columns)
        _, unit, dimension = describe(study, value)
        published = {
            key: list_published(study, spec.published, value, trial, spec.columns, reference=spec.against)
            for key, trial in chosen.items()
            if spec.published
        }
        reported = [each for found in published.values() for each in found]
        units = [each.unit for each in reported]
        scale = scale_of(unit, dimension, [trial["value"] for trial in chosen.values()], reported)
        measured = measured or any(pd.notna(trial["value"]) for trial in chosen.values())
        words = [scale.unit or unit or (units[0] if units and value not in QUANTITIES else "")]
        rows.append(
            Row(
                name,
                ", ".join(filter(None, [*words, "" if value in QUANTITIES else value])),
                tuple(
                    cell_of(chosen.get(key), published.get(key, ()), scale, _launches(study, chosen.get(key), value))
                    for key in column_keys
                ),
            )
        )
        found_published += list(published.values())
        chosen_all.update({(name, *key): trial for key, trial in chosen.items()})
    title = spec.title or "Counters"
    counter = next((value for value in spec.values.values() if value not in QUANTITIES), "")
    missing = not_measured(study, counter or next(iter(spec.values.values())), keep(study.trials, spec.where))
    if not measured and not any(found_published):
        return Table(title, "", (), (), (*((spec.note,) if spec.note else ()), missing))
    notes = table_notes(spec, chosen_all, found_published, False)
    group = f"By {' and '.join(fact_label(fact) for fact in spec.columns)}"
    columns = tuple(Column(key_label(key), "", group) for key in column_keys)
    return Table(
        title,
        "Value",
        columns,
        tuple(rows),
        (*notes, *([mode_note(study)] if counter and study.cache_mode else [])) if measured else (missing, *notes),
        folded=spec.folded or not measured,
    )


def _launches(study: Study, trial: Mapping[Any, Any] | None, value: str) -> str:
    if trial is None or value in QUANTITIES or pd.isna(trial["value"]):
        return ""
    return launches_text(study, trial, value)
