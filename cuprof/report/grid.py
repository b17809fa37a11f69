"""Tables over any two sets of facts: problems by variants, coarsening factors by sizes, several values by variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cuprof.core.records import NOT_RUN, State
from cuprof.report.cells import (
    Candidate,
    Key,
    candidates,
    choose,
    describe,
    fact_label,
    keep,
    list_published,
    ordered,
    ratio_notes,
)
from cuprof.report.counter_notes import collect_command, launches_text, left_out_notes, mode_note
from cuprof.report.experiment import TableSpec
from cuprof.report.failures import words_of
from cuprof.report.published import PublishedValue
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.units import QUANTITIES, Scale, choose_scale, point_label, value_label

UNMEASURED = {
    "total": "Times with transfers were not measured in this sweep; measure.modes=[cold,total] asks for them.",
    "hot": "Hot times were not measured in this sweep; measure.modes=[cold,hot] asks for them.",
    "energy": "Energy was not measured in this sweep; measure.energy=true asks for it.",
    "power": "Power was not measured in this sweep; measure.energy=true asks for it.",
}


def grid_table(study: Study, spec: TableSpec) -> Table:
    """Return the table that a study asks for, of kind pivot or values.

    A pivot has one quantity or counter, a row and a column for each combination of the facts asked for, and a unit a
    column. A table of values has a row and a unit for each quantity or counter.
    """
    grid = _Grid(study, spec)
    missing = [grid.not_measured] if not grid.is_measured else []
    title = spec.title or grid.title
    if missing and not any(grid.published.values()):
        return Table(title, "", (), (), (*filter(None, [spec.note]), *missing))
    rows = [grid.row(key) for key in grid.row_keys]
    if spec.sum is not None and not grid.is_values:
        rows += grid.sum_rows()
    notes = [*grid.notes(), *missing] if grid.is_values and not missing else [*missing, *grid.notes()]
    folded = spec.folded or bool(missing)
    return Table(title, grid.corner, grid.columns, tuple(rows), (*notes, *grid.counter_notes()), folded)


@dataclass(frozen=True, eq=False)
class _Grid:
    """The cells of one table by key: the name of a value or the facts of a row, then the facts of a column."""

    study: Study
    spec: TableSpec

    @property
    def is_values(self) -> bool:
        return self.spec.kind == "values"

    @cached_property
    def cells(self) -> dict[Key, Candidate]:
        """Return key → the candidate to show."""
        spec = self.spec
        if not self.is_values:
            return choose(candidates(self.study, spec.where, spec.value, spec.against), (*spec.rows, *spec.columns))
        return {
            (name, *key): each
            for name, value in spec.values.items()
            for key, each in choose(candidates(self.study, spec.where, value, spec.against), spec.columns).items()
        }

    @cached_property
    def published(self) -> dict[Key, tuple[PublishedValue, ...]]:
        """Return key → its published values."""
        spec, facts = self.spec, self.spec.columns if self.is_values else (*self.spec.rows, *self.spec.columns)
        if not spec.published:
            return {}
        return {
            key: list_published(
                self.study, spec.published, self.value_of(key), each.trial, facts, reference=spec.against
            )
            for key, each in self.cells.items()
        }

    def value_of(self, key: Key) -> str:
        """Return the quantity or counter of a cell."""
        return self.spec.values[key[0]] if self.is_values else self.spec.value

    @cached_property
    def split(self) -> int:
        """Return how many of a key's places name the row."""
        return 1 if self.is_values else len(self.spec.rows)

    @cached_property
    def row_keys(self) -> list[Key]:
        if self.is_values:
            return [(name,) for name in self.spec.values]
        return ordered(key[: self.split] for key in self.cells)

    @cached_property
    def column_keys(self) -> list[Key]:
        return ordered(key[self.split :] for key in self.cells)

    @cached_property
    def scales(self) -> dict[Key, Scale]:
        """Return the scale of each row of values, or of each column of a pivot, which published values share."""
        at = slice(0, 1) if self.is_values else slice(self.split, None)
        lines: dict[Key, list[Key]] = {}
        for key in self.cells:
            lines.setdefault(key[at], []).append(key)
        return {line: self._scale(keys) for line, keys in lines.items()}

    def _scale(self, keys: Sequence[Key]) -> Scale:
        _, unit, dimension = describe(self.study, self.value_of(keys[0]))
        values = [self.cells[key].value for key in keys]
        values += [found.value for key in keys for found in self.published.get(key, ())]
        if unit or dimension == "plain":
            whole = all(float(value).is_integer() for value in values if value is not None)
            return Scale(unit, 1.0, 0 if whole else 2)
        return choose_scale(dimension, values)

    @cached_property
    def is_measured(self) -> bool:
        return any(each.value is not None for each in self.cells.values())

    @property
    def is_speedup(self) -> bool:
        return "speedup" in (self.spec.values.values() if self.is_values else [self.spec.value])

    @property
    def heading(self) -> str:
        return describe(self.study, self.spec.value)[0]

    @property
    def corner(self) -> str:
        return "Value" if self.is_values else " · ".join(map(fact_label, self.spec.rows))

    @property
    def title(self) -> str:
        return "Counters" if self.is_values else f"{self.heading} by {self.corner}"

    @property
    def columns(self) -> tuple[Column, ...]:
        by = f"by {' and '.join(map(fact_label, self.spec.columns))}"
        if self.is_values:
            return tuple(Column(key_label(key), "", by.capitalize()) for key in self.column_keys)
        return tuple(Column(key_label(key), self.scales[key].unit, f"{self.heading}, {by}") for key in self.column_keys)

    def row(self, key: Key) -> Row:
        cells = [self.cell(key, column) for column in self.column_keys]
        return Row(key_label(key), self._below(key), tuple(cells))

    def cell(self, row: Key, column: Key) -> Cell:
        """Return a trial's value, or what became of the trial; the published one goes below, or one a kernel."""
        candidate = self.cells.get(row + column)
        if candidate is None:
            return MISSING
        scale = self.scales[row if self.is_values else column]
        published = _published_text(self.published.get(row + column, ()), scale)
        if candidate.value is not None:
            choice = self._launches(candidate, row) or candidate.choice
            note = " · ".join(filter(None, [choice, candidate.doubt]))
            return Cell(scale.format(candidate.value), note=note, published=published)
        trial = candidate.trial
        if trial.state is State.OK and not trial.is_expected_wrong:
            return Cell(candidate.reason or "–", "missing", published=published)
        harmless = trial.is_expected or trial.state in NOT_RUN
        return Cell(words_of(trial), "missing" if harmless else "failed", published=published)

    def _launches(self, candidate: Candidate, row: Key) -> str:
        value = self.value_of(row)
        is_counter = self.is_values and value not in QUANTITIES
        return launches_text(self.study, candidate.trial, value) if is_counter else ""

    def _below(self, key: Key) -> str:
        """Return what stands below a row's heading: its unit and counter, or what a named problem is."""
        if self.is_values:
            value = self.value_of(key)
            published = [each.unit for column in self.column_keys for each in self.published.get(key + column, ())]
            unit = self.scales[key].unit or (published[0] if published and value not in QUANTITIES else "")
            return ", ".join(filter(None, [unit, "" if value in QUANTITIES else value]))
        if self.spec.rows != ("problem",):
            return ""
        text = next(point_label(each.trial.problem) for place, each in self.cells.items() if place[:1] == key)
        return "" if text == key_label(key) else text

    def sum_rows(self) -> list[Row]:
        """Return the last rows: Σ value × repeats, of each part with its share and of all rows."""
        assert self.spec.sum is not None
        label, parts = self.spec.sum.label, self.spec.sum.parts
        repeats = self.spec.sum.repeats or {key_label(key): 1 for key in self.row_keys}
        totals = {column: self._add_up(column, repeats) for column in self.column_keys}
        rows = []
        for part, names in {**parts, label: tuple(repeats)}.items():
            chosen = {name: times for name, times in repeats.items() if name in names}
            cells = []
            for column, whole in totals.items():
                value = self._add_up(column, chosen)
                share = f"{value / whole:.1%}" if part in parts and value is not None and whole else ""
                text = self.scales[column].format(value)
                cells.append(Cell("not complete", "missing") if value is None else Cell(text, note=share))
            rows.append(Row(part, "", tuple(cells), "sum"))
        return rows

    def _add_up(self, column: Key, repeats: Mapping[str, int]) -> float | None:
        """Return Σ value × repeats, only where every row that it adds up is there and has a value."""
        found = {key_label(key): self.cells[key + column].value for key in self.row_keys if key + column in self.cells}
        needed = [(found.get(label), times) for label, times in repeats.items() if times]
        known = [value * times for value, times in needed if value is not None]
        return sum(known) if needed and len(known) == len(needed) else None

    @property
    def not_measured(self) -> str:
        """Return why nothing was measured, and how to get it."""
        values = [*self.spec.values.values()] if self.is_values else [self.spec.value]
        value = next((each for each in values if each not in QUANTITIES), values[0])
        trials = keep(self.study.trials, self.spec.where)
        if value not in QUANTITIES:
            return " ".join(left_out_notes(self.study, trials, value)) or (
                f"No value of {value} is stored for these trials; {collect_command(self.study)} collects counters."
            )
        reasons = dict.fromkeys(filter(None, (trial.energy_unavailable for trial in trials)))
        if reasons and value in ("energy", "power"):
            return f"{QUANTITIES[value].heading} was asked for and could not be measured: {'; '.join(reasons)}."
        return UNMEASURED.get(value, f"{QUANTITIES[value].heading}: nothing was measured in this sweep.")

    def notes(self) -> list[str]:
        """Return what a reader needs to know below the table."""
        spec, cells = self.spec, self.cells.values()
        notes = [spec.note]
        if any(each.choice for each in cells):
            notes.append(
                "Where a cell stands for several choices of tunables, it shows the fastest, named below the number."
            )
        if any(self.published.values()):
            notes.append("Small print after a device's name is a published figure, measured by others on that machine.")
        notes += ratio_notes(each.doubt or each.reason for each in cells if each.value is None or self.is_speedup)
        if not self.is_values and len(cells) < len(self.row_keys) * len(self.column_keys):
            notes.append("A dash: the variant is not defined for that problem, or was not selected.")
        if any(each.trial.state is State.SKIPPED and not each.trial.is_expected_wrong for each in cells):
            notes.append("Skipped: the reason, and what would help, is under Failed and skipped.")
        if spec.sum is not None and spec.sum.repeats:
            terms = (name if times == 1 else f"{times} × {name}" for name, times in spec.sum.repeats.items() if times)
            notes.append(f"{spec.sum.label}: {' + '.join(terms)}.")
        return [note for note in notes if note]

    def counter_notes(self) -> list[str]:
        """Return the name that a counter's heading shortens, and which caches it was taken with; none of a quantity."""
        counters = [value for value in self.spec.values.values() if value not in QUANTITIES]
        if not self.is_values:
            counters = [self.spec.value] if self.spec.value not in QUANTITIES else []
        if not counters or not self.is_measured:
            return []
        name = "" if self.is_values or self.heading == counters[0] else f"{self.heading}: {counters[0]}."
        return [note for note in (name, mode_note(self.study)) if note]


def key_label(key: Key) -> str:
    """Return a row's or column's heading."""
    return " · ".join(map(value_label, key))


def _published_text(found: Sequence[PublishedValue], scale: Scale) -> str:
    """Return "RTX 3060 Laptop: 9", or kernel by kernel as our own launches are listed."""
    if not found:
        return ""
    texts = [
        " ".join(filter(None, [value.kernel, value.text if value.value is None else scale.format(value.value)]))
        for value in found
    ]
    return f"{found[0].device or 'published'}: {', '.join(texts)}"
