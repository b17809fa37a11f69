"""Notebooks: whether this process runs the cells of one, and a result as HTML for a cell."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape

from cuprof.cli.output import Line, Part, Table


def is_notebook() -> bool:
    """Return whether this process runs the cells of a notebook; a library may import ipykernel anywhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def to_html(parts: Iterable[Part]) -> str:
    """Return parts as HTML for a notebook's cell."""
    return "".join(
        (f"<p>{escape(part.text)}</p>" if part.text else "") if isinstance(part, Line) else _html_table(part)
        for part in parts
    )


def _html_table(table: Table) -> str:
    aligns = ["right" if heading in table.numbers else "left" for heading in table.headings]
    rows = [("th", table.headings), *(("td", row) for row in table.rows)]
    cells = (
        "".join(
            f'<{tag} style="text-align: {align}">{escape(text)}</{tag}>'
            for align, text in zip(aligns, row, strict=True)
        )
        for tag, row in rows
    )
    return f"<table>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"
