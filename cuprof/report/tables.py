"""Tables as text in cells: what a page or a terminal prints, computed once, one unit a column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from cuprof.core.records import NOT_RUN, State
from cuprof.report.trials import StudyTrial

APART = "another session"
"""Shown in place of a speed-up between trials of two sweeps."""
ENDINGS: dict[str, str] = {
    "wrong_result": "wrong result",
    "implausible": "time that cannot be believed",
    "compile_error": "did not compile",
    "launch_error": "launch failed",
    "crashed": "crashed",
    "timed_out": "timed out",
    "impossible": "impossible on this device",
    "skipped": "skipped",
    "planned": "not run",
}
"""State → words for people; the order is that of failures on a page."""
WRONG_AS_EXPECTED = "wrong, as expected"
"""The words for a variant that is kept because it is wrong, and was found so: no failure."""
CellKind = Literal["number", "text", "missing", "failed"]


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        note: small print in the same cell: an interval, tunables.
        published: a published value of the same quantity, to be shown as such.
        share: length of a bar behind the number, 0 to 1.
        span: columns that the cell covers.
        mark: a sign beside the number, "★" for the fastest.
        heat: shade of the cell, from 0 (the fastest) to 1; None for none.
    """

    text: str
    kind: CellKind = "number"
    note: str = ""
    published: str = ""
    share: float | None = None
    span: int = 1
    mark: str = ""
    heat: float | None = None


@dataclass(frozen=True)
class Column:
    """A column's heading and unit; `group` is the heading above it, `published` marks another machine's numbers."""

    heading: str
    unit: str = ""
    group: str = ""
    published: bool = False


@dataclass(frozen=True)
class Row:
    """A row: its heading, what stands below the heading, its cells, and a mark ("fastest", "baseline", …) or none."""

    heading: str
    note: str
    cells: tuple[Cell, ...]
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its caption and the notes below it; a folded one opens on request."""

    title: str
    corner: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    folded: bool = False

    @property
    def groups(self) -> tuple[tuple[str, int, bool], ...]:
        """Return the headings above the columns: text, columns covered, published."""
        groups = groupby(self.columns, attrgetter("group", "published"))
        return tuple((text, len(list(columns)), published) for (text, published), columns in groups)


MISSING = Cell("–", "missing")


def ending_cell(trial: StudyTrial, *, with_error: bool = False, **more: Any) -> Cell:
    """Return the cell of a trial that is not ranked: what became of it, and the error of a wrong result."""
    words = WRONG_AS_EXPECTED if trial.is_expected else ENDINGS.get(trial.state, "not timed")
    if trial.is_expected_wrong and trial.state is State.OK:
        words = "known to be wrong; its check passed here"
    if with_error and trial.state is State.WRONG_RESULT and trial.check_error is not None:
        words += f": error {trial.check_error:.3g} × allowed"
    return Cell(words, "missing" if trial.is_expected or trial.state in NOT_RUN else "failed", **more)
