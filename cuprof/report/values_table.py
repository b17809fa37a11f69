"""A table of several quantities or counters: a row each, a column for each combination of facts."""

from __future__ import annotations

from cuprof.report.cache_modes import mode_note
from cuprof.report.cells import Candidate, Key, candidates, choose, describe, list_published, ordered
from cuprof.report.experiment import TableSpec
from cuprof.report.facts import fact_label
from cuprof.report.launches import launches_text
from cuprof.report.pivot_table import cell_of, key_label, not_measured, scale_of, table_notes
from cuprof.report.quantities import QUANTITIES
from cuprof.report.study import Study
from cuprof.report.tables import Column, Row, Table


def values_table(study: Study, spec: TableSpec) -> Table:
    """Return a row for each of the table's `values`, every row in its own unit, launches named where they differ."""
    rows, found_published = [], []
    chosen_by_name = {
        name: choose(candidates(study, spec.where, value, spec.against), spec.columns)
        for name, value in spec.values.items()
    }
    column_keys = ordered(key for chosen in chosen_by_name.values() for key in chosen)
    chosen_all: dict[Key, Candidate] = {
        (name, *key): each for name, chosen in chosen_by_name.items() for key, each in chosen.items()
    }
    measured = any(each.value is not None for each in chosen_all.values())
    for name, value in spec.values.items():
        chosen = chosen_by_name[name]
        _, unit, dimension = describe(study, value)
        published = {
            key: list_published(study, spec.published, value, each.trial, spec.columns, reference=spec.against)
            for key, each in chosen.items()
            if spec.published
        }
        reported = [each for found in published.values() for each in found]
        units = [each.unit for each in reported]
        scale = scale_of(unit, dimension, [each.value for each in chosen.values()], reported)
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
    title = spec.title or "Counters"
    counter = next((value for value in spec.values.values() if value not in QUANTITIES), "")
    missing = not_measured(study, spec.where, counter or next(iter(spec.values.values())))
    if not measured and not any(found_published):
        return Table(title, "", (), (), (*filter(None, [spec.note]), missing))
    notes = table_notes(spec, chosen_all, found_published, False)
    group = f"By {' and '.join(fact_label(fact) for fact in spec.columns)}"
    columns = tuple(Column(key_label(key), "", group) for key in column_keys)
    return Table(
        title,
        "Value",
        columns,
        tuple(rows),
        (*notes, *([mode_note(study)] if counter and study.counters.mode else [])) if measured else (missing, *notes),
        folded=spec.folded or not measured,
    )


def _launches(study: Study, candidate: Candidate | None, value: str) -> str:
    if candidate is None or candidate.value is None or value in QUANTITIES:
        return ""
    return launches_text(study, candidate.trial, value)
