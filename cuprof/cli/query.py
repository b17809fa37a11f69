"""`cuprof query`: read the database with SQL, a view or a named query."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.cli.arguments import CommandParser, add_store
from cuprof.core.errors import UsageError
from cuprof.core.text import visible_json

if TYPE_CHECKING:
    from cuprof.cli.terminal.table import Line
    from cuprof.results.rows import Rows

TIME_LIMIT_S = 600.0
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
    arguments = make_parser().parse_args(argv)
    if arguments.format == "parquet" and arguments.output is None:
        raise UsageError("parquet is not text; add --output FILE.parquet")
    from cuprof.cli.terminal.output import print_lines, terminal_width
    from cuprof.core.project import find_project
    from cuprof.results.export import to_parquet, write_file
    from cuprof.results.queries import list_queries, read

    if not arguments.query:
        _print_names(list_queries())
        return 0
    url, form = arguments.store or find_project().database_url, arguments.format
    with read(url, " ".join(arguments.query), time_limit_s=arguments.time_limit) as rows:
        if form == "parquet":
            write_file([to_parquet(rows)], arguments.output)
        elif arguments.output:
            write_file((text.encode() for text in _texts(rows, form)), arguments.output)
        elif form == "table":
            print_lines(_lines(rows, terminal_width()))
        else:
            for text in _texts(rows, form):
                print(visible_json(text) if form == "json" else text, end="")
    return 0


def _texts(rows: Rows, form: str) -> Iterable[str]:
    from cuprof.results.export import iter_csv, iter_json

    if form == "table":
        return (f"{line.text}\n" for line in _lines(rows))
    return iter_json(rows) if form == "json" else iter_csv(rows)


def _lines(rows: Rows, width: int | None = None) -> list[Line]:
    from cuprof.cli.terminal.frame import column_lines

    return column_lines(rows.names, rows.columns(), width)


def _print_names(names: Mapping[str, str]) -> None:
    from cuprof.cli.terminal.output import print_lines, terminal_width
    from cuprof.cli.terminal.table import Column, Row, layout

    columns = (Column("name", "left"), Column("rows", "left"))
    print_lines(layout(columns, [Row((name, meaning)) for name, meaning in names.items()], terminal_width()))


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser(
        "query",
        "Read the database, never change it: SQL, a view (trials, timings, best, …) or a named query.\n"
        "Control characters in values are shown as escapes (\\x1b); a file (--output) has them as they are stored.",
        EXAMPLES,
    )
    parser.add_argument("query", metavar="SQL|NAME", nargs="*", help="SQL, or the name of a query or view")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how the rows are written (default: table)")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to a file in place of the standard output")
    add_store(parser)
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=seconds,
        default=TIME_LIMIT_S,
        help=f"how long the database may work on it (default: {TIME_LIMIT_S:g}; inf: as long as it takes)",
    )
    return parser


def seconds(text: str) -> float:
    """Return a duration in seconds.

    Raises:
        argparse.ArgumentTypeError: it is no positive number.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value > 0:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0; write 60 or inf")
