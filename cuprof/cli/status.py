"""`cuprof status`: how far sweeps are, from another terminal or another machine."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence

from cuprof.cli.arguments import CommandParser, add_store

A_DAY_S = 86400
EXAMPLES = """\
examples:
  cuprof status
  cuprof status --every 10
  cuprof status --sweep 12 --json
  cuprof status --store postgresql+psycopg://cuprof@db.example/cuprof"""


def main(argv: Sequence[str]) -> int:
    """Print what the database tells of sweeps under way, once or again and again until they are done."""
    arguments = make_parser().parse_args(argv)
    from cuprof.cli.terminal.output import print_json, print_lines, print_message, terminal_width
    from cuprof.cli.terminal.status import status_lines
    from cuprof.core.errors import SelectionError, UnreachableStoreError
    from cuprof.core.project import find_project
    from cuprof.results.progress import list_progress
    from cuprof.store import Store

    url = arguments.store or find_project().database_url
    is_first = True
    while True:
        try:
            with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
                found = list_progress(connection, arguments.sweep)
        except UnreachableStoreError as error:
            if is_first:
                raise
            print_message(str(error))  # whoever watches waits for it as the sweeps do
            time.sleep(arguments.every)
            continue
        is_first = False
        if arguments.sweep is not None and not found:
            raise SelectionError(f"there is no sweep {arguments.sweep}; cuprof query sweeps lists them")
        if arguments.json:
            print_json([dataclasses.asdict(each) for each in found])
        else:
            print_lines(status_lines(found, terminal_width()))
        if not arguments.every or all(each.state != "running" for each in found):
            return 0
        time.sleep(arguments.every)


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser(
        "status",
        "Say of sweeps that are not finished what runs where, what has failed, and how long they still take; where\n"
        "there is none, what became of the newest.",
        EXAMPLES,
    )
    parser.add_argument("--sweep", metavar="ID", type=int, help="this sweep alone")
    parser.add_argument(
        "--every", metavar="SECONDS", type=_seconds, default=0.0, help="again and again until it is done"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_store(parser)
    return parser


def _seconds(text: str) -> float:
    """Return a number of seconds; `math.nan` is none."""
    try:
        if 0 <= float(text) <= A_DAY_S:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {A_DAY_S}")
