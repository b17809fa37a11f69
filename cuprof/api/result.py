"""What came of a comparison, for a script or a notebook: rows, verdicts, the table, the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.core.project import Project
from cuprof.families import Family

if TYPE_CHECKING:
    from cuprof.report.study import Study


def run(family: Family, settings: Sequence[str], project: Project) -> Comparison:
    """Sweep a family and end as `cuprof sweep` does; return the comparison.

    A notebook shows the table by itself, so nothing is printed there.
    """
    from cuprof.cli import hydra_app
    from cuprof.cli.hydra_arguments import quoted
    from cuprof.cli.progress import make_observer
    from cuprof.cli.sweep import show_results
    from cuprof.engine.sweep import run_sweep
    from cuprof.report.load import load_study
    from cuprof.store import Store

    config = hydra_app.compose([f"family={quoted(family.name)}", *settings], project)
    with make_observer() as observer:
        result = run_sweep(config, project, observer, family=family)
    with Store.open(config.store.url or project.database_url, create=False, read_only=True) as store:
        study = load_study(store, sweep_id=result.sweep_id, folders=project.experiment_folders)
    if "ipykernel" not in sys.modules:
        show_results(config, project, result)
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
        from cuprof.cli.results import trial_facts

        return [trial_facts(self.study, trial) for trial in self.study.trials]

    @property
    def verdicts(self) -> dict[str, str]:
        """Return variant → "faster", "slower", "same" or "undecided" against the first at the reference problem.

        A variant whose result is wrong, or that failed, has its state in place of a verdict.
        """
        study = self.study
        base = next((trial for trial in study.best if trial.variant == study.baseline), None)
        found = {trial.variant: trial.state.value for trial in study.trials if trial.variant != study.baseline}
        for trial in study.best:
            if trial.variant != study.baseline and base is not None:
                verdict = study.verdict(base, trial)
                found[trial.variant] = verdict.value if verdict else "not comparable"
        return found

    def report(self, path: str | Path = "") -> Path:
        """Write the page about the comparison into a folder, the project's own where none is given; return its path."""
        from cuprof.report import write

        return write(self.study, Path(path) if path else self._pages, folders=self._project.report_folders)

    def __str__(self) -> str:
        from cuprof.cli.output import terminal_width
        from cuprof.cli.results import result_parts
        from cuprof.cli.table import to_text

        return to_text(result_parts(self.study), terminal_width()).removesuffix("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from cuprof.cli.results import result_parts
        from cuprof.cli.table import to_html

        return to_html(result_parts(self.study))


class Defined:
    """Stand for a comparison in a file that is loaded to be swept: whatever the file does with it does nothing."""

    rows: tuple[dict[str, Any], ...] = ()
    verdicts: tuple[str, ...] = ()

    def report(self, path: str | Path = "") -> None:
        """Write nothing."""
