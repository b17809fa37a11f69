"""Tables over any two sets of facts: problems by variants, coarsening factors by sizes, several values by variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cuprof.core.records import State
from cuprof.report.cells import Candidate, Key, choose, describe, fact_label, keep, ordered
from cuprof.report.counter_section import collect_command, left_out_notes, mode_notes
from cuprof.report.experiment import SumSpec, TableSpec
from cuprof.report.failures import ending_cell
from cuprof.report.published import PublishedValue, list_published
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.templates import say
from cuprof.report.units import QUANTITIES, Scale, choose_scale, point_label, value_label


@dataclass(frozen=True)
class Entry:
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


def grid_table(study: Study, spec: TableSpec) -> Table:
    """Return the table that a study asks for, of kind pivot or values.

    A pivot has one quantity or counter, a row and a column for each combination of the facts asked for, and a unit a
    column. A table of values has a row and a unit for each quantity or counter.
    """
    grid = Grid(study, spec, spec.kind == "values")
    is_measured = any(each.found.value is not None for each in grid.entries)
    missing = [] if is_measured else _not_measured(study, spec, grid.values[0])
    if missing and not any(each.published for each in grid.entries):
        return Table(spec.title or grid.title, "", (), (), (*filter(None, [spec.note]), *missing))
    rows = [_row(study, grid, key) for key in grid.rows]
    if spec.sum is not None and not grid.is_values:
        rows += _sum_rows(grid, spec.sum)
    notes = [*missing, *_notes(grid, is_measured=is_measured)]
    return Table(
        spec.title or grid.title, grid.corner, grid.columns, tuple(rows), tuple(notes), spec.folded or bool(missing)
    )


@dataclass(frozen=True, eq=False)
class Grid:
    """The entries of a table, its rows and columns in order, and a scale for each line of one unit."""

    study: Study
    spec: TableSpec
    is_values: bool

    @cached_property
    def entries(self) -> list[Entry]:
        """Return what to show in each cell."""
        study, spec = self.study, self.spec
        published = [value for value in study.published if spec.published and value.table == spec.published]
        facts = spec.columns if self.is_values else (*spec.rows, *spec.columns)
        split, reference = len(facts) - len(spec.columns), spec.against or study.baseline
        return [
            Entry(
                (name,) if self.is_values else key[:split],
                key[split:],
                value,
                found,
                list_published(published, value, found.trial, facts, reference=reference) if published else (),
            )
            for name, value in (spec.values if self.is_values else {"": spec.value}).items()
            for key, found in choose(study, spec.where, value, facts, spec.against).items()
        ]

    @cached_property
    def cells(self) -> dict[tuple[Key, Key], Entry]:
        """Return row and column → entry."""
        return {(each.row, each.column): each for each in self.entries}

    @cached_property
    def rows(self) -> list[Key]:
        """Return the rows' facts in order."""
        return [(name,) for name in self.spec.values] if self.is_values else ordered(each.row for each in self.entries)

    @cached_property
    def column_keys(self) -> list[Key]:
        """Return the columns' facts in order."""
        return ordered(each.column for each in self.entries)

    @cached_property
    def scales(self) -> dict[Key, Scale]:
        """Return the scale of each row of values, or of each column of a pivot, which published values share."""
        lines: dict[Key, list[Entry]] = {}
        for entry in self.entries:
            lines.setdefault(self.line(entry.row, entry.column), []).append(entry)
        return {line: self._scale(entries) for line, entries in lines.items()}

    def line(self, row: Key, column: Key) -> Key:
        """Return the row or column whose unit a cell has."""
        return row if self.is_values else column

    def _scale(self, entries: Sequence[Entry]) -> Scale:
        _, unit, dimension = describe(self.study, entries[0].value)
        values = [each.found.value for each in entries] + [found.value for each in entries for found in each.published]
        if unit or dimension == "plain":
            whole = all(float(value).is_integer() for value in values if value is not None)
            return Scale(unit, 1.0, 0 if whole else 2)
        return choose_scale(dimension, values)

    @property
    def values(self) -> list[str]:
        """Return the names of its quantities and counters, counters first."""
        names = [*self.spec.values.values()] if self.is_values else [self.spec.value]
        return sorted(names, key=lambda name: name in QUANTITIES)

    @property
    def heading(self) -> str:
        """Return what a pivot shows."""
        return describe(self.study, self.spec.value)[0]

    @property
    def corner(self) -> str:
        """Return the heading above the rows' headings."""
        return "Value" if self.is_values else " · ".join(map(fact_label, self.spec.rows))

    @property
    def title(self) -> str:
        """Return the caption of a table that has none."""
        return "Counters" if self.is_values else f"{self.heading} by {self.corner}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns' headings."""
        by = f"by {' and '.join(map(fact_label, self.spec.columns))}"
        if self.is_values:
            return tuple(Column(key_label(key), "", by.capitalize()) for key in self.column_keys)
        return tuple(Column(key_label(key), self.scales[key].unit, f"{self.heading}, {by}") for key in self.column_keys)


def key_label(key: Key) -> str:
    """Return a row's or column's heading."""
    return " · ".join(map(value_label, key))


def _row(study: Study, grid: Grid, row: Key) -> Row:
    entries = [grid.cells.get((row, column)) for column in grid.column_keys]
    cells = [_cell(study, grid, entry) if entry else MISSING for entry in entries]
    return Row(key_label(row), _below(grid, row, [entry for entry in entries if entry]), tuple(cells))


def _cell(study: Study, grid: Grid, entry: Entry) -> Cell:
    """Return a trial's value, or what became of the trial; the published one goes below, or one a kernel."""
    found, trial, scale = entry.found, entry.found.trial, grid.scales[grid.line(entry.row, entry.column)]
    published = _published_text(entry.published, scale)
    if found.value is not None:
        is_counter = grid.is_values and entry.value not in QUANTITIES
        launches = study.counters.launches_text(trial.id, entry.value) if is_counter else ""
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
    sums = {column: _add_up(grid, column, repeats) for column in grid.column_keys}
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


def _notes(grid: Grid, *, is_measured: bool) -> list[str]:
    """Return what a reader needs to know below the table."""
    spec, found, name = grid.spec, [each.found for each in grid.entries], grid.values[0]
    ratios = [each.doubt or each.reason for each in found if each.value is None or "speedup" in grid.values]
    is_counter = is_measured and name not in QUANTITIES
    facts = {
        "has_choices": any(each.choice for each in found),
        "has_published": any(each.published for each in grid.entries),
        "has_gaps": not grid.is_values and len(grid.cells) < len(grid.rows) * len(grid.column_keys),
        "has_skipped": any(each.trial.state is State.SKIPPED and not each.trial.is_expected_wrong for each in found),
        "ratios": ", ".join(ratios).split(", "),
        "long_name": f"{grid.heading}: {name}" if is_counter and not grid.is_values and grid.heading != name else "",
    }
    modes = mode_notes(grid.study) if is_counter else []
    return [*filter(None, [spec.note]), *say("tables.txt", "grid", spec, facts), *modes]
