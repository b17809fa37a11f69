"""Values of trials by facts ("variant", "problem.n", "tune.block"), and the tables over any two sets of facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cuprof.core.point import Point
from cuprof.core.records import State
from cuprof.ncu.metrics import heading_of
from cuprof.report.counter_section import collect_command, left_out_notes
from cuprof.report.experiment import SumSpec, TableSpec
from cuprof.report.published import PublishedValue, list_published
from cuprof.report.study import Pair, Study
from cuprof.report.tables import APART, MISSING, Cell, Column, Row, Table, ending_cell
from cuprof.report.templates import say
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import QUANTITIES, Dimension, Scale, choose_scale, is_number, value_label

Key = tuple[Any, ...]
NAMES = {"variant": "contender", "device": "device", "problem": "problem_name"}


@dataclass(frozen=True)
class Found:
    """A trial with one of its values.

    Args:
        name: of the quantity (`cuprof.report.units`) or counter.
        value: in base units, None unless the trial is right and the value known.
        choice: the tunables that it was chosen for and that are no facts of the table, as text.
        remark: why the value of a right trial is missing, or a reason to mistrust a speed-up (its interval) or a time.
        published: what was published of it.
    """

    name: str
    trial: StudyTrial
    value: float | None
    choice: str
    remark: str
    published: tuple[PublishedValue, ...]


def values_of(trials: pd.DataFrame, fact: str) -> list[Any]:
    """Return the value that each trial has of one fact, None where it has none."""
    head, _, tail = fact.partition(".")
    if not tail:
        return list(trials[NAMES[fact]])
    return [point.get(tail) for point in trials["problem" if head == "problem" else "tunables"]]


def fact_label(fact: str) -> str:
    """Return the heading of a fact: "problem.n" reads "n"."""
    return fact.partition(".")[2] or fact


def keep(trials: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials that agree with every fact; a trial without a tunable is not excluded by it.

    A variant that ran on several devices is several contenders; its plain name means all of them. Variants come as
    `where` lists them.
    """
    for fact, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        allowed = [*values, None] if fact.startswith("tune.") else values
        fits = np.array([each in allowed for each in values_of(trials, fact)], dtype=bool)
        trials = trials[fits | trials["variant"].isin(values) if fact == "variant" else fits]
    if isinstance(listed := where.get("variant"), list):
        names = trials["contender"].where(trials["contender"].isin(listed), trials["variant"])
        trials = trials.iloc[np.argsort([listed.index(each) for each in names], kind="stable")]
    return trials


def choose(
    study: Study, kept: pd.DataFrame, name: str, facts: Sequence[str], published: str = "", against: str = ""
) -> dict[Key, Found]:
    """Return what to show for each combination of facts: the fastest trial with a value, else the first.

    Without a value, one that knows the reason goes before the others.

    Args:
        name: of a quantity or a counter.
        published: the table to look for published values in.
        against: the variant that speedups are against; empty for the baseline.
    """
    against = against or study.baseline
    values = _values(study, kept, name, against)
    groups: dict[Key, list[int]] = {}
    for place, *values_here in zip(kept.index, *(values_of(kept, fact) for fact in facts), strict=True):
        groups.setdefault(tuple(values_here), []).append(place)
    sure_ns, tunables = dict(kept["sure_ns"]), dict(kept["tunables"])
    named = {fact.partition(".")[2] for fact in facts if fact.startswith("tune.")}
    chosen = {}
    for key, places in groups.items():
        if valued := [place for place in places if place in values]:
            best = min(valued, key=sure_ns.__getitem__)
            own = {axis: value for axis, value in tunables[best].items() if axis not in named}  # in its row or column
            differing = [axis for axis in own if len({tunables[place].get(axis) for place in valued}) > 1]
            chosen[key] = best, Point({axis: own[axis] for axis in differing}).label
        else:  # the first that says why it has no value
            asked = places if name == "speedup" or name not in QUANTITIES else []
            without = zip(asked, study.rows(study.frame.loc[asked]), strict=True)
            telling = (place for place, trial in without if _find_remark(study, trial, name, None, against))
            chosen[key] = next(telling, places[0]), ""
    trials = study.rows(study.frame.loc[[place for place, _ in chosen.values()]])
    table = [each for each in study.published if each.table == published]
    found = {}
    for trial, (key, (place, choice)) in zip(trials, chosen.items(), strict=True):
        value, theirs = values.get(place), list_published(table, name, trial, facts, reference=against)
        found[key] = Found(name, trial, value, choice, _find_remark(study, trial, name, value, against), theirs)
    return found


def _values(study: Study, kept: pd.DataFrame, name: str, against: str) -> dict[int, float]:
    """Return the value of each right trial that has one, by its place."""
    right = kept[kept["is_right"]]
    if name in QUANTITIES and QUANTITIES[name].attribute:
        return dict(right[QUANTITIES[name].attribute].dropna())
    found: Iterable[float | None]
    if name in QUANTITIES:
        pairs = [study.pair_of(trial, against) for trial in study.rows(right)]
        if name == "speedup":
            study.foresee(pairs)
        found = [pair and (pair.speedup if name == "speedup" else pair.total_speedup) for pair in pairs]
    else:
        found = [study.counters.value_of(key, name) for key in right["id"]]
    return {place: each for place, each in zip(right.index, found, strict=True) if each is not None}


def _find_remark(study: Study, trial: StudyTrial, name: str, value: float | None, against: str) -> str:
    """Return why the value of a right trial is missing, or a reason to mistrust it; empty where there is none."""
    if not trial.is_right or name == "total_speedup":
        return ""
    if name == "speedup":
        pair = Pair(study, study.baseline_of(trial, against) or trial, trial)
        return APART if pair.is_apart else pair.remark if value is not None else ""
    if name in QUANTITIES:
        return study.age(trial) if value is not None else ""
    return study.counters.why_missing(trial.id, name) if value is None else ""


def describe(study: Study, name: str) -> tuple[str, str, Dimension]:
    """Return heading, fixed unit (empty where it is chosen from the data) and dimension of a quantity or counter."""
    if name in QUANTITIES:
        return QUANTITIES[name].heading, "", QUANTITIES[name].dimension
    return heading_of(name), study.counters.unit_of(name), "plain"


def ordered(keys: Iterable[Key]) -> list[Key]:
    """Return distinct keys in order of appearance; where a position holds numbers only, sorted by them."""
    unique = list(dict.fromkeys(keys))
    for position in reversed(range(len(unique[0]) if unique else 0)):
        values = list(dict.fromkeys(key[position] for key in unique))
        if any(value is not None for value in values) and all(value is None or is_number(value) for value in values):
            values.sort(key=lambda value: (value is not None, value or 0))
        ranks = {value: rank for rank, value in enumerate(values)}
        unique.sort(key=lambda key, at=position, ranks=ranks: ranks[key[at]])  # type: ignore[misc]
    return unique


class Grid(NamedTuple):
    """The values of a table by row and column, both in order, and a scale for each line of one unit.

    Args:
        is_values: a row for each quantity or counter, which has a unit; else a pivot, with a unit a column.
    """

    study: Study
    spec: TableSpec
    is_values: bool
    rows: list[Key]
    columns: list[Key]
    cells: Mapping[tuple[Key, Key], Found]
    scales: Mapping[Key, Scale]


def grid_table(study: Study, spec: TableSpec) -> Table:
    """Return the table that a study asks for, of kind pivot or values.

    A pivot has one quantity or counter, and a row and a column for each combination of the facts asked for.
    """
    grid = _make_grid(study, spec)
    names = sorted(spec.values.values() if grid.is_values else [spec.value], key=lambda name: name in QUANTITIES)
    heading, by = describe(study, spec.value)[0], f"by {' and '.join(map(fact_label, spec.columns))}"
    corner = "Value" if grid.is_values else " · ".join(map(fact_label, spec.rows))
    title = spec.title or ("Counters" if grid.is_values else f"{heading} by {corner}")
    is_measured = any(each.value is not None for each in grid.cells.values())
    missing = [] if is_measured else _not_measured(study, spec, names[0])
    if missing and not any(each.published for each in grid.cells.values()):
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
    facts = spec.columns if is_values else (*spec.rows, *spec.columns)
    split, kept = len(facts) - len(spec.columns), keep(study.frame, spec.where)
    cells = {
        ((name,) if is_values else key[:split], key[split:]): found
        for name, value in (spec.values if is_values else {"": spec.value}).items()
        for key, found in choose(study, kept, value, facts, spec.published, spec.against).items()
    }
    scales = {}
    for line, own in grouped(cells, lambda place: place[not is_values]).items():
        found = [cells[place] for place in own]
        _, unit, dimension = describe(study, found[0].name)
        values = [each.value for each in found] + [theirs.value for each in found for theirs in each.published]
        scales[line] = choose_scale(dimension, values, unit)
    return Grid(
        *(study, spec, is_values),
        rows=[(name,) for name in spec.values] if is_values else ordered(row for row, _ in cells),
        columns=ordered(column for _, column in cells),
        cells=cells,
        scales=scales,
    )


def key_label(key: Key) -> str:
    """Return a row's or column's heading."""
    return " · ".join(map(value_label, key))


def _row(grid: Grid, row: Key) -> Row:
    found = [grid.cells.get((row, column)) for column in grid.columns]
    scales = [grid.scales.get(row if grid.is_values else column) for column in grid.columns]
    cells = [_cell(grid, each, scale) if each and scale else MISSING for each, scale in zip(found, scales, strict=True)]
    return Row(key_label(row), _below(grid, row, [each for each in found if each]), tuple(cells))


def _cell(grid: Grid, found: Found, scale: Scale) -> Cell:
    """Return a trial's value, or what became of the trial; the published one goes below, or one a kernel."""
    trial, published = found.trial, ""
    if found.published:  # "RTX 3060 Laptop: 9", or kernel by kernel as our own launches are listed
        texts = (each.text if each.value is None else scale.format(each.value) for each in found.published)
        told = (f"{each.kernel} {text}".strip() for each, text in zip(found.published, texts, strict=True))
        published = f"{found.published[0].device or 'published'}: {', '.join(told)}"
    if found.value is not None:
        is_counter = grid.is_values and found.name not in QUANTITIES
        launches = grid.study.counters.launches_text(trial.id, found.name) if is_counter else ""
        note = " · ".join(filter(None, [launches or found.choice, found.remark]))
        return Cell(scale.format(found.value), note=note, published=published)
    if trial.state is State.OK and not trial.is_expected_wrong:
        return Cell(found.remark or "–", "missing", published=published)
    return ending_cell(trial, published=published)


def _below(grid: Grid, row: Key, line: Sequence[Found]) -> str:
    """Return what stands below a row's heading: its unit and counter, or what a named problem is."""
    if grid.is_values:
        counter = "" if (name := grid.spec.values[row[0]]) in QUANTITIES else name
        published = [found.unit for each in line for found in each.published if counter]
        unit = (grid.scales[row].unit if row in grid.scales else "") or next(iter(published), "")
        return ", ".join(filter(None, [unit, counter]))
    text = line[0].trial.problem.label if grid.spec.rows == ("problem",) else ""
    return "" if text == key_label(row) else text


def _sum_rows(grid: Grid, total: SumSpec) -> list[Row]:
    """Return the last rows: Σ value × repeats, of each part with its share and of all rows."""
    repeats = total.repeats or {key_label(key): 1 for key in grid.rows}
    rows = []
    for part, names in {**total.parts, total.label: tuple(repeats)}.items():
        chosen = {name: times for name, times in repeats.items() if name in names}
        cells = []
        for column in grid.columns:
            value, whole = (_add_up(grid, column, times) for times in (chosen, repeats))
            share = f"{value / whole:.1%}" if part in total.parts and value is not None and whole else ""
            text = grid.scales[column].format(value)
            cells.append(Cell("not complete", "missing") if value is None else Cell(text, note=share))
        rows.append(Row(part, "", tuple(cells), "sum"))
    return rows


def _add_up(grid: Grid, column: Key, repeats: Mapping[str, int]) -> float | None:
    """Return Σ value × repeats, only where every row that it adds up is there and has a value."""
    found = {key_label(row): each.value for (row, of), each in grid.cells.items() if of == column}
    needed = [(found.get(label), times) for label, times in repeats.items() if times]
    known = [value * times for value, times in needed if value is not None]
    return sum(known) if needed and len(known) == len(needed) else None


def _not_measured(study: Study, spec: TableSpec, name: str) -> list[str]:
    """Return why nothing was measured, and how to get it."""
    trials = keep(study.frame, spec.where)
    if name not in QUANTITIES:
        return left_out_notes(study, trials, name) or say("tables.txt", "no_counter", name, collect_command(study))
    reasons = [each for each in trials["energy_unavailable"].unique() if each and name in ("energy", "power")]
    return say("tables.txt", "unmeasured", name, QUANTITIES[name].heading, reasons)


def _notes(grid: Grid, names: Sequence[str], heading: str, *, is_measured: bool) -> list[str]:
    """Return what a reader needs to know below the table."""
    spec, found, name = grid.spec, list(grid.cells.values()), names[0]
    ratios = [each.remark for each in found if each.value is None or "speedup" in names]
    is_counter = is_measured and name not in QUANTITIES
    has_gaps = not grid.is_values and len(found) < len(grid.rows) * len(grid.columns)
    long_name = f"{heading}: {name}" if is_counter and not grid.is_values and heading != name else ""
    notes = say("tables.txt", "grid", spec, found, ", ".join(ratios).split(", "), has_gaps, long_name)
    mode = say("counters.txt", "mode", grid.study.counters.mode) if is_counter else []
    return [*filter(None, [spec.note]), *notes, *mode]
