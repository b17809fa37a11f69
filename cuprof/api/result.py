"""What came of a comparison, for a script or a notebook: rows, verdicts, the table, the page.

It is imported when a comparison is run: one that is only defined needs none of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from cuprof.cli.output import Line, Part, Table, terminal_width, to_text
from cuprof.cli.progress import make_observer
from cuprof.cli.results import list_verdicts, result_parts, show_results, trial_facts, verdict_lines
from cuprof.config.composer import compose
from cuprof.config.overrides import quoted
from cuprof.core.project import Project
from cuprof.engine.running import run_sweep
from cuprof.families import Family
from cuprof.report.load import load_study
from cuprof.report.study import Study
from cuprof.store.store import Store


def run(family: Family, settings: Sequence[str], project: Project) -> Comparison:
    """Sweep a family and end as `cuprof sweep` does; return the comparison.

    A notebook shows the table by itself, so nothing is printed there.
    """
    config = compose([f"family={quoted(family.name)}", *settings], project)
    with make_observer() as observer:
        result = run_sweep(config, project, observer, family=family)
    with Store.open(result.url, create=False, read_only=True) as store:
        study = load_study(store, sweep_id=result.sweep_id, folders=project.folders("experiments"))
    if not is_notebook():
        show_results(config, project, result.url, result.sweep_id)
    return Comparison(study, project, config.report.folder(project))


class Comparison:
    """Hold one finished comparison; printing it gives the table that `cuprof sweep` prints.

    Attributes:
        study: the sweep as typed rows.
        database: where it is stored.
    """

    def __init__(self, study: Study, project: Project, pages: Path) -> None:
        self.study, self.database = study, study.database
        self._project, self._pages = project, pages

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping a trial, as `output=json` of the command gives it; times in ns."""
        return [trial_facts(self.study, trial) for trial in self.study.trials]

    @property
    def verdicts(self) -> dict[str, dict[str, str]]:
        """Return problem → variant → "faster", "slower", "same" or "undecided" against the first, such as `n=2^20`.

        A variant whose result is wrong, or that failed, has its state in place of a verdict.
        """
        study, found = self.study, dict[str, dict[str, str]]()
        for trial in study.trials:
            if trial.variant != study.baseline:
                found.setdefault(trial.problem.label, {}).setdefault(trial.contender, trial.state.value)
        for trial, verdict in list_verdicts(study):
            found[trial.problem.label][trial.contender] = verdict or "not comparable"
        return found

    @property
    def summary(self) -> str:
        """Return a line for each variant: at how many problems it is faster, slower, the same or undecided."""
        return "\n".join(verdict_lines(self.study))

    def report(self, path: str | Path = "") -> Path:
        """Write the page about the comparison into a folder, the project's own where none is given; return its path."""
        from cuprof.report.page import write  # a page takes more, and may not be asked for

        return write(self.study, Path(path) if path else self._pages, folders=self._project.folders("reports"))

    def __str__(self) -> str:
        return to_text(result_parts(self.study), terminal_width()).removesuffix("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return to_html(result_parts(self.study))


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

    def row(tag: str, texts: Iterable[str]) -> str:
        pairs = zip(aligns, texts, strict=True)
        cells = (f'<{tag} style="text-align: {align}">{escape(text)}</{tag}>' for align, text in pairs)
        return f"<tr>{''.join(cells)}</tr>"

    return f"<table>{row('th', table.headings)}{''.join(row('td', one) for one in table.rows)}</table>"
