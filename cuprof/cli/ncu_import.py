"""`cuprof ncu-import`: import Nsight Compute reports that were made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import Line, print_message, show
from cuprof.core.project import find_project

EXAMPLES = """\
examples:
  cuprof ncu-import profile.ncu-rep
  cuprof ncu-import --name vendor *.ncu-rep
  cuprof query "SELECT * FROM counters WHERE name LIKE 'vendor/%'"
"""


PARSER = CommandParser(
    "ncu-import",
    "Take in Nsight Compute reports: launches in ranges of cuprof's join their trials, others become\n"
    "rows of their own, one a kernel. The files are copied to the project's artifacts.",
    EXAMPLES,
    store=True,
)
PARSER.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a .ncu-rep file")
PARSER.add_argument("--name", default="", help="what launches that join no trial go by (default: the file's name)")
PARSER.add_argument(
    "--cache-mode",
    choices=("cold", "hot"),
    default="",
    help="file the counters under this mode (default: by the ncu command line that the report holds)",
)


def main(argv: Sequence[str]) -> int:
    """Take in each report, or none where one cannot be read."""
    arguments = PARSER.parse_args(argv)
    from cuprof.engine.importing import import_reports

    artifacts, said = find_project().artifacts, {"name": arguments.name, "cache_mode": arguments.cache_mode}
    for result in import_reports(arguments.files, arguments.store, artifacts, **said):
        show(Line(f"{result.path}: {result.describe()}"))
        for note in result.notes:
            print_message(f"{result.path}: {note}")
    return 0
