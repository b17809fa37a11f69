"""What `dry_run=true` prints: the trials of a plan and what is stored of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from cuprof.cli.terminal.output import print_json, print_lines, terminal_width
from cuprof.cli.terminal.table import Column, Line, Row, layout

if TYPE_CHECKING:
    from cuprof.engine.preview import Preview


def print_preview(preview: Preview, output: str) -> None:
    """Print a plan to the standard output, as a table or as JSON."""
    if output == "json":
        print_json([asdict(row) for row in preview.rows])
    else:
        print_lines(preview_lines(preview, terminal_width()))


def preview_lines(preview: Preview, width: int) -> list[Line]:
    """Return the table's lines and one that counts the states."""
    columns = [Column("trial", "left"), Column("identity", "left"), Column("state", "left"), Column("reason", "left")]
    if not any(row.reason for row in preview.rows):
        columns.pop()
    rows = [
        Row(
            (row.label, row.identity[:8], row.state, row.reason)[: len(columns)],
            "dim" if row.state in ("unavailable", "excluded") else "",
        )
        for row in preview.rows
    ]
    counts = Counter(row.state for row in preview.rows)
    summary = ", ".join(f"{count} {state}" for state, count in counts.items())
    notes = [Line(note, "dim") for note in preview.notes]
    return [*layout(columns, rows, width), Line(""), *notes, Line(f"{summary or 'nothing'}; nothing was run", "bold")]
