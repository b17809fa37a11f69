"""`cuprof report`: write the before/after page of an experiment from the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuprof.cli import hydra_app
from cuprof.cli.choice import list_experiments
from cuprof.cli.output import print_json
from cuprof.core.project import Project

if TYPE_CHECKING:
    from cuprof.config import SweepConfig
    from cuprof.report.study import Study

HELP = """\
usage: cuprof report [SETTING=VALUE ...] [OPTION ...]

Write one self-contained HTML page about the newest stored sweep of an experiment, or about an earlier one, and print
its path. Nothing is measured.

settings:
  experiment=NAME   the study (default: reduction); see cuprof list experiments
  report.sweep=ID   an earlier sweep instead of the newest, as NAME-sweep-ID.html; see cuprof query sweeps
  report.path=DIR   the folder for the page (default: reports/out in the project)
  output=json       print the path as JSON
  further ones      see cuprof sweep --help; what is about measuring has no effect here

options:
  --store URL       another database, any SQLAlchemy URL
  -h, --help        show this text
  --cfg job         show the composed configuration; further options: cuprof sweep --help

examples:
  cuprof report experiment=reduction
  cuprof report experiment=reduction report.path=/tmp/pages
  cuprof report experiment=reduction report.sweep=5
  cuprof report experiment=reduction,convlab"""


def main(argv: Sequence[str]) -> int:
    """Run the command; see `HELP`."""
    return hydra_app.run("report", argv, task, HELP)


def task(config: SweepConfig, project: Project) -> int:
    """Write the page of one experiment and print its path."""
    from cuprof.interop.origins import name_family
    from cuprof.report import write
    from cuprof.report.load import load_study
    from cuprof.store import Store

    url, chosen = config.store.url or project.database_url, config.report.sweep
    name = config.experiment or name_family(config.family)
    with Store.open(url, create=False, read_only=True) as store:
        study = load_study(store, name, sweep_id=chosen, folders=project.experiment_folders)
    folder = config.report.folder(project)
    path = write(study, folder, name=name_page(study, chosen, project), folders=project.report_folders)
    if config.output == "json":
        print_json({"experiment": config.experiment, "sweep": study.sweep.id, "report": str(path)})
    else:
        print(path)
    return 0


def name_page(study: Study, sweep_id: int | None, project: Project) -> str:
    """Return a page's file name without ending; a family's page does not take the place of the study of its name.

    Args:
        sweep_id: as `page_name` takes it.
    """
    from cuprof.report import page_name

    name = page_name(study, sweep_id)
    is_of_family = not study.sweep.experiment and study.sweep.family in list_experiments(project)
    return f"family-{name}" if is_of_family else name
