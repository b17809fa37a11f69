"""`cuprof ncu-import`: take in Nsight Compute reports that were made elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cuprof.commands.arguments import CommandParser, add_store
from cuprof.project import find_project

EXAMPLES = """\
examples:
  cuprof ncu-import profile.ncu-rep
  cuprof ncu-import --name vendor *.ncu-rep
  cuprof query "SELECT * FROM counters WHERE name LIKE 'vendor/%'" """


def main(argv: Sequence[str]) -> int:
    """Take in each report, or none where one cannot be read."""
    arguments = _parse(argv)
    from cuprof.ncu.importing import ImportSetting, import_report, list_identities
    from cuprof.reading.labels import read_labels
    from cuprof.store import Store

    project = find_project()
    identities = list_identities(arguments.files)
    with Store.open(arguments.store or project.database_url) as store:
        with store.snapshot() as connection:
            labels = read_labels(connection, identities)
        setting = ImportSetting(project.artifacts, labels, arguments.name, arguments.cache_mode)
        for path in arguments.files:
            result = import_report(path, setting, store)
            print(f"{path}: {result.describe()}")
            for note in result.notes:
                print(f"{path}: {note}", file=sys.stderr)
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        "ncu-import",
        "Take in Nsight Compute reports: launches in ranges of cuprof's join their trials, others become "
        "rows of their own, one a kernel. The files are copied to the project's artifacts.",
        EXAMPLES,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a .ncu-rep file")
    parser.add_argument("--name", default="", help="what launches that join no trial go by (default: the file's name)")
    parser.add_argument(
        "--cache-mode",
        choices=("cold", "hot"),
        default="",
        help="file the counters under this mode (default: by the ncu command line that the report holds)",
    )
    add_store(parser)
    return parser.parse_args(argv)
