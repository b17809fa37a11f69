"""The output of `dry_run=true`: the trials of a plan and their stored states."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from cuprof.cli.output import emit
from cuprof.cli.table import Line, Part, Table

if TYPE_CHECKING:
    from cuprof.engine.preview import Preview


def print_preview(preview: Preview, output: str) -> None:
    """Print a plan to the standard output, as a table or as JSON."""
    emit([asdict(row) for row in preview.rows], output == "json", preview_parts(preview))


def preview_parts(preview: Preview) -> list[Part]:
    """Return the table and a line that counts the states."""
    names = ["trial", "identity", "state"] + ["reason"] * any(row.reason for row in preview.rows)
    rows = [(row.label, row.identity[:8], row.state, row.reason)[: len(names)] for row in preview.rows]
    styles = ["dim" if row.state in ("unavailable", "excluded") else "" for row in preview.rows]
    counts = Counter(row.state for row in preview.rows)
    summary = ", ".join(f"{count} {state}" for state, count in counts.items()) or "nothing"
    notes = [Line(note, "dim") for note in preview.notes]
    return [Table(names, rows, styles=styles), Line(""), *notes, Line(f"{summary}; nothing was run", "bold")]
