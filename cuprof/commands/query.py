"""`cuprof query`: read the database with SQL, a view or a named query."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuprof.commands.arguments import CommandParser, add_store
from cuprof.errors import UsageError

FORMATS = ("table", "csv", "json", "parquet")

EXAMPLES = """\
examples:
  cuprof query                                   the named queries and views
  cuprof query best
  cuprof query "SELECT variant, median_us FROM timings WHERE measure = 'cold' ORDER BY median_us"
  cuprof query before_after --format csv --output before_after.csv
  cuprof query trials --format json | jq '.[0]'"""


def main(argv: Sequence[str]) -> int:
    """Print or write the rows."""
    arguments = _parse(argv)
    if arguments.format == "parquet" and arguments.output is None:
        raise UsageError("parquet is not text; add --output FILE.parquet")
    from cuprof.project import find_project
    from cuprof.reading.export import to_text, write_frame
    from cuprof.reading.queries import list_queries, query
    from cuprof.terminal.output import terminal_width

    if not arguments.query:
        _print_names(list_queries())
        return 0
    frame = query(arguments.store or find_project().database_url, " ".join(arguments.query))
    if arguments.output is not None:
        write_frame(frame, arguments.format, arguments.output)
    else:
        print(to_text(frame, arguments.format, width=terminal_width()), end="")
    return 0


def _print_names(names: Mapping[str, str]) -> None:
    from cuprof.terminal.output import print_lines, terminal_width
    from cuprof.terminal.table import Column, Row, layout

    columns = (Column("name", "left"), Column("rows", "left"))
    print_lines(layout(columns, [Row((name, meaning)) for name, meaning in names.items()], terminal_width()))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        "query",
        "Read the database, never change it: SQL, a view (trials, timings, best, …) or a named query.",
        EXAMPLES,
    )
    parser.add_argument("query", metavar="SQL|NAME", nargs="*", help="SQL, or the name of a query or view")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how the rows are written (default: table)")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to a file in place of the standard output")
    add_store(parser)
    return parser.parse_args(argv)
