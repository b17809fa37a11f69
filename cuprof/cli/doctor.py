"""`cuprof doctor`: what is installed, what is missing, and the command that mends it."""

from __future__ import annotations

from collections.abc import Sequence

from cuprof.cli.arguments import CommandParser, add_store
from cuprof.cli.diagnosis import examine
from cuprof.cli.host_diagnosis import Diagnosis, Health

MARKS = {Health.GOOD: "ok", Health.OPTIONAL: "absent", Health.WARNING: "WARNING", Health.MISSING: "MISSING"}


def main(argv: Sequence[str]) -> int:
    """Print the diagnoses; return 1 when something that every sweep needs is missing."""
    arguments = make_parser().parse_args(argv)
    from cuprof.cli.terminal.output import print_json
    from cuprof.core.project import find_project

    found = list(examine(find_project(), arguments.store))
    if arguments.json:
        print_json([{**vars(each), "health": each.health.value} for each in found])
    else:
        _print(found)
    return int(any(each.health is Health.MISSING for each in found))


def _print(found: Sequence[Diagnosis]) -> None:
    from cuprof.cli.terminal.output import print_lines, terminal_width
    from cuprof.cli.terminal.table import Column, Line, Row, layout

    styles = {Health.OPTIONAL: "dim", Health.WARNING: "yellow", Health.MISSING: "bold red"}
    rows = [Row((MARKS[each.health], each.what, each.detail), styles.get(each.health, "")) for each in found]
    columns = (Column("state", "left"), Column("what", "left"), Column("found", "left"))
    print_lines(layout(columns, rows, terminal_width()))
    remedies = [Line(f"  {each.what}: {each.remedy}") for each in found if each.remedy]
    if remedies:
        print_lines([Line(""), Line("what to do:", "bold"), *remedies])


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser(
        "doctor",
        "Say what is installed, what is missing and the command that mends it.",
        "Exit code: 0 all that every sweep needs is there, 1 something is missing.\n\n"
        "examples:\n  cuprof doctor\n  cuprof doctor --json",
    )
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
