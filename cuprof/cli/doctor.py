"""`cuprof doctor`: look for missing software, and print the command that installs it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence

from cuprof.cli.arguments import CommandParser, add_store
from cuprof.cli.diagnosis import examine
from cuprof.cli.host_diagnosis import Diagnosis, Health
from cuprof.cli.output import emit
from cuprof.cli.table import Column, Line, Part, Row, Table

MARKS = {Health.GOOD: "ok", Health.OPTIONAL: "absent", Health.WARNING: "WARNING", Health.MISSING: "MISSING"}
STYLES = {Health.OPTIONAL: "dim", Health.WARNING: "yellow", Health.MISSING: "bold red"}


def main(argv: Sequence[str]) -> int:
    """Print the diagnoses; return 1 if something that every sweep needs is missing."""
    arguments = make_parser().parse_args(argv)
    from cuprof.core.project import find_project

    project, url, found = find_project(), arguments.store, []
    if arguments.settings:
        from cuprof.config.composer import Composer

        config = Composer(project, arguments.settings).config()
        url = url or config.store.url
        if arguments.node or config.launch.name != "local":
            from cuprof.cli.node_diagnosis import describe_node, examine_node

            if arguments.node:
                print(json.dumps(describe_node(url or project.database_url)))
                return 0
            found = list(examine_node(config, argv, project))
    found = [*examine(project, url), *found]
    emit([{**vars(each), "health": each.health.value} for each in found], arguments.json, _parts(found))
    return int(any(each.health is Health.MISSING for each in found))


def _parts(found: Sequence[Diagnosis]) -> Iterator[Part]:
    rows = [Row((MARKS[each.health], each.what, each.detail), STYLES.get(each.health, "")) for each in found]
    yield Table([Column(name, "left") for name in ("state", "what", "found")], rows)
    if remedies := [Line(f"  {each.what}: {each.remedy}") for each in found if each.remedy]:
        yield from (Line(""), Line("what to do:", "bold"), *remedies)


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser(
        "doctor",
        "Say what is installed, what is missing and the command that mends it; with launch=…, also what a node has\n"
        "that jobs of a sweep with the same settings would run on.",
        "Exit code: 0 all that every sweep needs is there, 1 something is missing.\n\n"
        "examples:\n  cuprof doctor\n  cuprof doctor --json\n  cuprof doctor launch=slurm launch.gpus=1 store=postgres",
    )
    parser.add_argument("settings", metavar="SETTING=VALUE", nargs="*", help="of launch and store, as in cuprof sweep")
    parser.add_argument("--node", action="store_true", help=argparse.SUPPRESS)
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
