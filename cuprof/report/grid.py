"""Tables over any two sets of facts: problems by variants, coarsening factors by sizes, several values by variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cuprof.core.records import State
from cuprof.report.cells import Candidate, Key, choose, describe, fact_label, keep, ordered
from cuprof.report.counter_section import collect_command, left_out_notes, mode_notes
from cuprof.report.experiment import SumSpec, TableSpec
from cuprof.report.failures import ending_cell
from cuprof.report.published import PublishedValue, list_published
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.templates import say
from cuprof.report.trials import grouped
from cuprof.report.units import QUANTITIES, Scale, choose_scale, point_label, value_label


class Entry(NamedTuple):
    """A cell before it is text.

    Args:
        row, column: facts; the row of a table of values is the heading of one.
        value: the name of its quantity or counter.
        found: the trial to show; None where no trial has these facts.
        published: what was published of it.
    """

    row: Key
    column: Key
    value: str
    found: Candidate
    published: tuple[PublishedValue, ...]


class Grid(NamedTuple):
    """The entries of a table, its rows and columns in order, and a scale for each line of one unit.

    Args:
        is_values: a row for each quantity or counter, which has a unit; else a pivot, with a unit a column.
        cells: row and column → entry.
    """

    study: Study
    spec: TableSpec
    is_values: bool
    entries: list[Entry]
    rows: list[Key]
    columns: list[Key]
    cells: Mapping[tuple[Key, Key], Entry]
    scales: Mapping[Key, Scale]

    def scale_of(self, entry: Entry) -> Scale:
        """Return the scale of an entry's line."""
        return self.scales[entry.row if self.is_values else entry.column]


def grid_table(study: Study, spec: TableSpec) -> Table:
    """Return the table that a study asks for, of kind pivot or values.

    A pivot has one quantity or counter, and a row and a column for each combination of the facts asked for.
    """
    grid = _make_grid(study, spec)
    names = sorted(spec.values.values() if grid.is_values else [spec.value], key=lambda name: name in QUANTITIES)
    heading, by = describe(study, spec.value)[0], f"by {' and '.join(map(fact_label, spec.columns))}"
    corner = "Value" if grid.is_values else " · ".join(map(fact_label, spec.rows))
    title = spec.title or ("Counters" if grid.is_values else f"{heading} by {corner}")
    is_measured = any(each.found.value is not None for each in grid.entries)
    missing = [] if is_measured else _not_measured(study, spec, names[0])
    if missing and not any(each.published for each in grid.entries):
        return Table(title, "", (), (), (*filter(None, [spec.note]), *missing))
    group = by.capitalize() if grid.is_values else f"{heading}, {by}"
    units = ["" if grid.is_values else grid.scales[key].unit for key in grid.columns]
    columns = [Column(key_label(key), unit, group) for key, unit in zip(grid.columns, units, strict=True)]
    rows = [_row(grid, key) for key in grid.rows]
    if spec.sum is not None and not grid.is_values:
        rows += _sum_rows(grid, spec.sum)
    notes = [*missing, *_notes(grid, names, heading, is_measured=is_measured)]
    return Table(title, corner, tuple(columns), tuple(rows), tuple(notes), spec.folded or bool(missing))


def _make_grid(study: Study, spec: TableSpec) -> Grid:
    is_values = spec.kind == "values"
    published = [value for value in study.published if spec.published and value.table == spec.published]
    facts = spec.columns if is_values else (*spec.rows, *spec.columns)
    split, reference = len(facts) - len(spec.columns), spec.against or study.baseline
    entries = [
        Entry(
            (name,) if is_values else key[:split],
            key[split:],
            value,
            found,
            list_published(published, value, found.trial, facts, reference=reference) if published else (),
        )
        for name, value in (spec.values if is_values else {"": spec.value}).items()
        for key, found in choose(study, spec.where, value, facts, spec.against).items()
    ]
    lines = grouped(entries, lambda entry: entry.row if is_values else entry.column)
    return Grid(
        *(study, spec, is_values, entries),
        rows=[(name,) for name in spec.values] if is_values else ordered(each.row for each in entries),
        columns=ordered(each.column for each in entries),
        cells={(each.row, each.column): each for each in entries},
        scales={line: _scale(study, own) for line, own in lines.items()},
    )


def _scale(study: Study, entries: Sequence[Entry]) -> Scale:
    """Return the scale of one line, which published values share."""
    _, unit, dimension = describe(study, entries[0].value)
    values = [each.found.value for each in entries] + [found.value for each in entries for found in each.published]
    if unit or dimension == "plain":
        whole = all(float(value).is_integer() for value in values if value is not None)
        return Scale(unit, 1.0, 0 if whole else 2)
    return choose_scale(dimension, values)


def key_label(key: Key) -> str:
    """Return a row's or column's heading."""
    return " · ".join(map(value_label, key))


def _row(grid: Grid, row: Key) -> Row:
    entries = [grid.cells.get((row, column)) for column in grid.columns]
    cells = [_cell(grid, entry) if entry else MISSING for entry in entries]
    return Row(key_label(row), _below(grid, row, [entry for entry in entries if entry]), tuple(cells))


def _cell(grid: Grid, entry: Entry) -> Cell:
    """Return a trial's value, or what became of the trial; the published one goes below, or one a kernel."""
    found, trial, scale = entry.found, entry.found.trial, grid.scale_of(entry)
    published = _published_text(entry.published, scale)
    if found.value is not None:
        is_counter = grid.is_values and entry.value not in QUANTITIES
        launches = grid.study.counters.launches_text(trial.id, entry.value) if is_counter else ""
        note = " · ".join(filter(None, [launches or found.choice, found.doubt]))
        return Cell(scale.format(found.value), note=note, published=published)
    if trial.state is State.OK and not trial.is_expected_wrong:
        return Cell(found.reason or "–", "missing", published=published)
    return ending_cell(trial, published=published)


def _below(grid: Grid, row: Key, entries: Sequence[Entry]) -> str:
    """Return what stands below a row's heading: its unit and counter, or what a named problem is."""
    if grid.is_values:
        value = grid.spec.values[row[0]]
        published = [] if value in QUANTITIES else [found.unit for each in entries for found in each.published]
        unit = (grid.scales[row].unit if row in grid.scales else "") or next(iter(published), "")
        return ", ".join(filter(None, [unit, "" if value in QUANTITIES else value]))
    if grid.spec.rows != ("problem",):
        return ""
    text = point_label(entries[0].found.trial.problem)
    return "" if text == key_label(row) else text


def _published_text(found: Sequence[PublishedValue], scale: Scale) -> str:
    """Return "RTX 3060 Laptop: 9", or kernel by kernel as our own launches are listed."""
    if not found:
        return ""
    texts = [
        " ".join(filter(None, [value.kernel, value.text if value.value is None else scale.format(value.value)]))
        for value in found
    ]
    return f"{found[0].device or 'published'}: {', '.join(texts)}"


def _sum_rows(grid: Grid, total: SumSpec) -> list[Row]:
    """Return the last rows: Σ value × repeats, of each part with its share and of all rows."""
    repeats = total.repeats or {key_label(key): 1 for key in grid.rows}
    sums = {column: _add_up(grid, column, repeats) for column in grid.columns}
    rows = []
    for part, names in {**total.parts, total.label: tuple(repeats)}.items():
        chosen = {name: times for name, times in repeats.items() if name in names}
        cells = []
        for column, whole in sums.items():
            value = _add_up(grid, column, chosen)
            share = f"{value / whole:.1%}" if part in total.parts and value is not None and whole else ""
            text = grid.scales[column].format(value)
            cells.append(Cell("not complete", "missing") if value is None else Cell(text, note=share))
        rows.append(Row(part, "", tuple(cells), "sum"))
    return rows


def _add_up(grid: Grid, column: Key, repeats: Mapping[str, int]) -> float | None:
    """Return Σ value × repeats, only where every row that it adds up is there and has a value."""
    found = {key_label(each.row): each.found.value for each in grid.entries if each.column == column}
    needed = [(found.get(label), times) for label, times in repeats.items() if times]
    known = [value * times for value, times in needed if value is not None]
    return sum(known) if needed and len(known) == len(needed) else None


def _not_measured(study: Study, spec: TableSpec, value: str) -> list[str]:
    """Return why nothing was measured, and how to get it."""
    trials = keep(study.frame, spec.where)
    if value not in QUANTITIES:
        notes = left_out_notes(study, trials, value)
        return notes or say("tables.txt", "no_counter", value, collect_command(study))
    reasons = [each for each in trials["energy_unavailable"].unique() if each and value in ("energy", "power")]
    return say("tables.txt", "unmeasured", value, QUANTITIES[value].heading, reasons)


def _notes(grid: Grid, names: Sequence[str], heading: str, *, is_measured: bool) -> list[str]:
    """Return what a reader needs to know below the table."""
    spec, found, name = grid.spec, [each.found for each in grid.entries], names[0]
    ratios = [each.doubt or each.reason for each in found if each.value is None or "speedup" in names]
    is_counter = is_measured and name not in QUANTITIES
    facts = {
        "has_choices": any(each.choice for each in found),
        "has_published": any(each.published for each in grid.entries),
        "has_gaps": not grid.is_values and len(grid.cells) < len(grid.rows) * len(grid.columns),
        "has_skipped": any(each.trial.state is State.SKIPPED and not each.trial.is_expected_wrong for each in found),
        "ratios": ", ".join(ratios).split(", "),
        "long_name": f"{heading}: {name}" if is_counter and not grid.is_values and heading != name else "",
    }
    modes = mode_notes(grid.study) if is_counter else []
    return [*filter(None, [spec.note]), *say("tables.txt", "grid", spec, facts), *modes]
