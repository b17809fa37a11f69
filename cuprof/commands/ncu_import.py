"""`cuprof ncu-import`: take in Nsight Compute reports that were made elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.commands.arguments import CommandParser
from cuprof.project import find_project
from cuprof.terminal.output import print_lines, print_message
from cuprof.terminal.table import Line

if TYPE_CHECKING:
    from cuprof.store import Store

EXAMPLES = """\
examples:
  cuprof ncu-import profile.ncu-rep
  cuprof ncu-import --name vendor *.ncu-rep
  cuprof query "SELECT * FROM counters WHERE name LIKE 'vendor/%'" """


def main(argv: Sequence[str]) -> int:
    """Take in each report, or none where one cannot be read."""
    arguments = _parse(argv)
    from cuprof.ncu.importing import ImportSetting, import_report, list_identities
    from cuprof.store import Store

    project = find_project()
    identities = list_identities(arguments.files)
    with Store.open(arguments.store or project.database_url) as store:
        setting = ImportSetting(project.artifacts, _labels(store, identities), arguments.name, arguments.cache_mode)
        for path in arguments.files:
            result = import_report(path, setting, store)
            print_lines([Line(f"{path}: {result.describe()}")])
            for note in result.notes:
                print_message(f"{path}: {note}")
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
    parser.add_argument("--store", default="", metavar="URL", help="another database, any SQLAlchemy URL")
    return parser.parse_args(argv)


def _labels(store: Store, identities: Sequence[str]) -> dict[str, str]:
    """Return identity → label of those trials that are stored."""
    if not identities:
        return {}
    places = {f"i{place}": identity for place, identity in enumerate(identities)}
    names = ", ".join(f":{place}" for place in places)
    frame = store.query(f"SELECT identity, label FROM trial WHERE identity IN ({names})", places)
    return dict(zip(frame.identity, frame.label, strict=True))
