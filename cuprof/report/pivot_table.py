"""A table over any two sets of facts: problems by variants, coarsening factors by sizes, …"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cuprof.core.records import NOT_RUN, State
from cuprof.ncu.knowledge import heading_of
from cuprof.report.cache_modes import collect_command, left_out_notes, mode_note
from cuprof.report.cells import Candidate, Key, candidates, choose, describe, list_published, ordered
from cuprof.report.experiment import TableSpec
from cuprof.report.facts import Facts, fact_label, keep
from cuprof.report.failures import SURPRISING_PASS, WORDS, WRONG_AS_EXPECTED
from cuprof.report.labels import point_label, value_label
from cuprof.report.published import PublishedValue
from cuprof.report.quantities import QUANTITIES, Dimension, Scale, choose_scale
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table

Chosen = Mapping[Key, Candidate]
Published = Sequence[PublishedValue]

UNMEASURED = {
    "total": "Times with transfers were not measured in this sweep; measure.modes=[cold,total] asks for them.",
    "hot": "Hot times were not measured in this sweep; measure.modes=[cold,hot] asks for them.",
    "energy": "Energy was not measured in this sweep; measure.energy=true asks for it.",
    "power": "Power was not measured in this sweep; measure.energy=true asks for it.",
}
SMALL_PRINT = "Small print after a device's name is a published figure, measured by others on that machine."


def pivot_table(study: Study, spec: TableSpec) -> Table:
    """Return one quantity or counter, a row and a column for each combination of the facts the table asks for."""
    facts = (*spec.rows, *spec.columns)
    chosen = choose(candidates(study, spec.where, spec.value, spec.against), facts)
    split = len(spec.rows)
    row_keys, column_keys = ordered(key[:split] for key in chosen), ordered(key[split:] for key in chosen)
    heading, unit, dimension = describe(study, spec.value)
    published = {
        key: list_published(study, spec.published, spec.value, each.trial, facts, reference=spec.against)
        for key, each in chosen.items()
        if spec.published
    }
    measured = any(each.value is not None for each in chosen.values())
    if not measured and not any(published.values()):
        return Table(
            spec.title or heading, "", (), (), (*filter(None, [spec.note]), not_measured(study, spec.where, spec.value))
        )
    scales = {
        key: scale_of(
            unit,
            dimension,
            [candidate.value for each, candidate in chosen.items() if each[split:] == key],
            [value for each, found in published.items() if each[split:] == key for value in found],
        )
        for key in column_keys
    }
    group = f"{heading}, by {' and '.join(fact_label(fact) for fact in spec.columns)}"
    columns = [Column(key_label(key), scales[key].unit or unit, group) for key in column_keys]
    rows = [
        Row(
            key_label(key),
            _coordinates(spec, key, chosen),
            tuple(
                cell_of(chosen.get(key + column), published.get(key + column, ()), scales[column])
                for column in column_keys
            ),
        )
        for key in row_keys
    ]
    if spec.sum is not None:
        rows.append(_sum(spec, row_keys, column_keys, chosen, scales))
    corner = " · ".join(fact_label(fact) for fact in spec.rows)
    gaps = any(row_key + column_key not in chosen for row_key in row_keys for column_key in column_keys)
    return Table(
        spec.title or f"{heading} by {corner}",
        corner,
        tuple(columns),
        tuple(rows),
        (
            *(() if measured else (not_measured(study, spec.where, spec.value),)),
            *table_notes(spec, chosen, published.values(), gaps),
            *(_counter_notes(study, spec.value) if measured else ()),
        ),
        folded=spec.folded or not measured,
    )


def not_measured(study: Study, where: Facts, value: str) -> str:
    """Return why the trials that agree with `where` have no value of a quantity or counter, and how to get one."""
    trials = keep(study.trials, where)
    if value not in QUANTITIES:
        return " ".join(left_out_notes(study, trials, value)) or (
            f"No value of {value} is stored for these trials; {collect_command(study)} collects counters."
        )
    reasons = dict.fromkeys(filter(None, (trial.energy_unavailable for trial in trials)))
    if reasons and value in ("energy", "power"):
        return f"{QUANTITIES[value].heading} was asked for and could not be measured: {'; '.join(reasons)}."
    return UNMEASURED.get(value, f"{QUANTITIES[value].heading}: nothing was measured in this sweep.")


def key_label(key: Key) -> str:
    """Return a row's or column's heading."""
    return " · ".join(value_label(value) for value in key)


def scale_of(
    unit: str, dimension: Dimension, measured: Iterable[float | None], published: Iterable[PublishedValue]
) -> Scale:
    """Return the scale in which measured and published values of one row or column are written."""
    values = [*measured, *(found.value for found in published)]
    if unit or dimension == "plain":
        whole = all(float(value).is_integer() for value in values if value is not None)
        return Scale(unit, 1.0, 0 if whole else 2)
    return choose_scale(dimension, values)


def cell_of(candidate: Candidate | None, found: Published, scale: Scale, note: str = "") -> Cell:
    """Return a trial's value, or what became of the trial; the published one goes below, or one a kernel."""
    if candidate is None:
        return MISSING
    trial, report = candidate.trial, _published_text(found, scale)
    if candidate.value is not None:
        return Cell(scale.format(candidate.value), note=note or candidate.choice, published=report)
    if trial.state is State.OK:
        if trial.is_expected_wrong:
            return Cell(SURPRISING_PASS, "failed", published=report)
        return Cell(candidate.reason or "–", "missing", published=report)
    if trial.is_expected:
        return Cell(WRONG_AS_EXPECTED, "missing", published=report)
    return Cell(WORDS[trial.state], "missing" if trial.state in NOT_RUN else "failed", published=report)


def _published_text(found: Published, scale: Scale) -> str:
    """Return "RTX 3060 Laptop: 9", or kernel by kernel as our own launches are listed."""
    if not found:
        return ""
    texts = [
        " ".join(filter(None, [value.kernel, value.text if value.value is None else scale.format(value.value)]))
        for value in found
    ]
    return f"{found[0].device or 'published'}: {', '.join(texts)}"


def table_notes(spec: TableSpec, chosen: Chosen, published: Iterable[Published], gaps: bool) -> tuple[str, ...]:
    """Return what a reader needs to know below a table."""
    notes = [spec.note] if spec.note else []
    if any(each.choice for each in chosen.values()):
        notes.append(
            "Where a cell stands for several choices of tunables, it shows the fastest, named below the number."
        )
    if any(published):
        notes.append(SMALL_PRINT)
    if gaps:
        notes.append("A dash: the variant is not defined for that problem, or was not selected.")
    if any(each.trial.state is State.SKIPPED and not each.trial.is_expected_wrong for each in chosen.values()):
        notes.append("Skipped: the reason, and what would help, is under Failed and skipped.")
    if spec.sum is not None and spec.sum.repeats:
        notes.append(
            f"{spec.sum.label}: "
            + " + ".join(
                name if times == 1 else f"{times} × {name}" for name, times in spec.sum.repeats.items() if times
            )
            + "."
        )
    return tuple(notes)


def _counter_notes(study: Study, value: str) -> tuple[str, ...]:
    """Return the name that a counter's heading shortens, and which caches it was taken with; nothing of a quantity."""
    if value in QUANTITIES:
        return ()
    name = f"{heading_of(value)}: {value}." if heading_of(value) != value else ""
    return tuple(filter(None, (name, mode_note(study))))


def _coordinates(spec: TableSpec, key: Key, chosen: Chosen) -> str:
    """Return what a named problem is, for the row that stands for it."""
    if spec.rows != ("problem",):
        return ""
    text = next(point_label(candidate.trial.problem) for each, candidate in chosen.items() if each[:1] == key)
    return "" if text == key_label(key) else text


def _sum(
    spec: TableSpec,
    row_keys: Sequence[Key],
    column_keys: Sequence[Key],
    chosen: Chosen,
    scales: Mapping[Key, Scale],
) -> Row:
    """Return the last row: Σ value × repeats, only where every row that it adds up is there and has a value."""
    assert spec.sum is not None
    repeats = spec.sum.repeats or {key_label(key): 1 for key in row_keys}
    cells = []
    for column in column_keys:
        values = {key_label(key): chosen[key + column].value for key in row_keys if key + column in chosen}
        needed = [(values.get(label), times) for label, times in repeats.items() if times]
        known = [value * times for value, times in needed if value is not None]
        total = sum(known) if needed and len(known) == len(needed) else None
        cells.append(Cell(scales[column].format(total)) if total is not None else Cell("not complete", "missing"))
    return Row(spec.sum.label, "", tuple(cells), "sum")
