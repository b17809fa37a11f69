"""`cuprof merge`: databases of other machines into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import print_json, show
from cuprof.cli.table import Line
from cuprof.core.text import count

if TYPE_CHECKING:
    from cuprof.engine.merging import MergeResult

SHOWN = ("sweep", "trial", "run", "profile")
EXAMPLES = """\
examples:
  cuprof merge node1/db/cuprof.sqlite node2/db/cuprof.sqlite
  cuprof merge sqlite:////media/disk/old.sqlite --store postgresql+psycopg://cuprof@db.example/cuprof
  cuprof merge postgresql+psycopg://cuprof@db.example/cuprof --store sqlite:///all.sqlite"""


PARSER = CommandParser(
    "merge",
    "Take what other databases hold into this project's, or the one of --store. What is here already is not taken\n"
    "again. Rows that cuprof cannot have measured (impossible times, future dates, unknown words) are refused and\n"
    "counted. Otherwise all of a database is taken or nothing, and nothing in it is changed.",
    EXAMPLES,
    store=True,
    json=True,
)
PARSER.add_argument("databases", metavar="DATABASE", nargs="+", help="an SQLite file, or any SQLAlchemy URL")


def main(argv: Sequence[str]) -> int:
    """Take in one database after the other and say what was new."""
    arguments = PARSER.parse_args(argv)
    from cuprof.core.errors import UsageError
    from cuprof.core.project import find_project
    from cuprof.engine.merging import merge_database
    from cuprof.store import Store
    from cuprof.store.connection import same_place

    target = arguments.store
    sources = [each if "://" in each else f"sqlite:///{each}" for each in arguments.databases]  # whatever its ending
    for source in sources:
        if same_place(source, target):
            raise UsageError("a database cannot be merged into itself; name another one, or another --store")
    told = []
    with Store.open(target) as store:
        for source in sources:
            result = merge_database(source, store, find_project().artifacts)
            merged = result.merged
            counts = {f"{name}s": merged.added[name] for name in SHOWN}
            counts |= {"reports": result.reports, "missing_reports": result.missing}
            told.append({"database": merged.place, **counts, "refused": dict(merged.refused), "notes": merged.notes})
            if not arguments.json:
                show(*map(Line, _describe(result)))
    if arguments.json:
        print_json(told)
    return 0


def _describe(result: MergeResult) -> list[str]:
    added = [f"{name}s: {new}" for name in SHOWN if (new := result.merged.added[name])]
    added += [f"reports: {result.reports}"] * bool(result.reports)
    lines = [f"{result.merged.place}: {', '.join(added) or 'nothing new'}"]
    if result.missing:
        lines.append(f"  reports of its counters that are not in the folder artifacts beside it: {result.missing}")
    for fault, number in result.merged.refused.items():
        table, _, why = fault.partition(": ")
        lines.append(f"  refused, with everything that belongs to it: {count(number, 'row')} of {table}, {why}")
    return lines + [f"  {note}" for note in result.merged.notes]
