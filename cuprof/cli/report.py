"""`cuprof report`: write the before/after page of an experiment from the database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.cli import hydra_app
from cuprof.cli.choice import list_choices
from cuprof.cli.output import print_json
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.project import Project

if TYPE_CHECKING:
    from cuprof.config import SweepConfig
    from cuprof.report.study import Study
    from cuprof.results.sweeps import SweepRow
    from cuprof.store import Store

HELP = """\
Write one self-contained HTML page about the newest stored sweep of an experiment, or about an earlier one, and print
its path. A page that shows all that is stored stays as it is. Nothing is measured.

settings:
  experiment=NAME   the study (default: reduction); see cuprof list experiments
  report.sweep=ID   an earlier sweep instead of the newest, as NAME-sweep-ID.html; see cuprof query sweeps
  report.path=DIR   the folder for the page (default: reports/out in the project)
  output=json       print the path as JSON
  further ones      see cuprof sweep --help; what is about measuring has no effect here"""
EXAMPLES = """\
examples:
  cuprof report experiment=reduction
  cuprof report experiment=reduction report.path=/tmp/pages
  cuprof report experiment=reduction report.sweep=5
  cuprof report experiment=reduction,convlab"""


def main(argv: Sequence[str]) -> int:
    """Run the command; see `HELP`."""
    return hydra_app.run("report", argv, task, HELP, EXAMPLES)


def task(config: SweepConfig, project: Project) -> int:
    """Write the page of one experiment, unless it is up to date, and print its path."""
    from cuprof.interop.origins import name_family
    from cuprof.results.sweeps import get_sweep
    from cuprof.store import Store

    chosen, name = config.report.sweep, config.experiment or name_family(config.family)
    with Store.open(config.store.url or project.database_url, create=False, read_only=True) as store:
        with store.snapshot() as connection:
            try:
                sweep = get_sweep(connection, name, chosen)
            except UnknownNameError as error:
                if config.family.endswith(".py") and not Path(config.family).exists():
                    raise UsageError(f"there is no file {config.family}, and no sweep of it is stored") from error
                raise
        path = write_page(store, sweep, config, project, name, chosen)
    if config.output == "json":
        print_json({"experiment": config.experiment, "sweep": sweep.id, "report": str(path)})
    else:
        print(path)
    return 0


def write_page(
    store: Store,
    sweep: SweepRow,
    config: SweepConfig,
    project: Project,
    name: str = "",
    number: int | None = None,
    study: Study | None = None,
) -> Path:
    """Write the page of a sweep, unless it is up to date; return its path.

    Args:
        name, number: the experiment and the sweep's number, as `page_name` takes them.
        study: the sweep's, where it has been loaded.
    """
    from cuprof.report.freshness import digest, is_current
    from cuprof.report.load import load_study
    from cuprof.report.page import write

    folders, reports = project.experiment_folders, project.report_folders
    file, folder = name_page(sweep, name, number, project), config.report.folder(project)
    path, made_of = folder / f"{file}.html", digest(store, sweep, name, experiments=folders, reports=reports)
    if not is_current(path, made_of):
        study = study or load_study(store, name, sweep_id=sweep.id, folders=folders)
        write(study, folder, name=file, folders=reports, made_of=made_of)
    return path


def name_page(sweep: SweepRow, experiment: str, sweep_id: int | None, project: Project) -> str:
    """Return a page's file name without ending; a family's page does not take the place of the study of its name.

    Args:
        experiment, sweep_id: as `page_name` takes them.
    """
    from cuprof.report.freshness import page_name

    name = page_name(sweep, experiment, sweep_id)
    is_of_family = not sweep.experiment and sweep.family in list_choices(project, "experiment")
    return f"family-{name}" if is_of_family else name
