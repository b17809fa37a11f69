"""`cuprof doctor`: look for missing software, and print the command that installs it."""

from __future__ import annotations

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

    found = list(examine(find_project(), arguments.store))
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
        "Say what is installed, what is missing and the command that mends it.",
        "Exit code: 0 all that every sweep needs is there, 1 something is missing.\n\n"
        "examples:\n  cuprof doctor\n  cuprof doctor --json",
    )
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
