"""`cuprof query`: read the database with SQL, a view or a named query."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.cli.arguments import CommandParser, add_store
from cuprof.cli.output import show, terminal_width
from cuprof.cli.table import Column, Line, Part, Row, Table, display_width, to_text
from cuprof.core.errors import UsageError
from cuprof.core.text import visible_json

if TYPE_CHECKING:
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
    from cuprof.core.project import find_project
    from cuprof.results.export import to_parquet, write_file
    from cuprof.results.queries import list_queries, read

    if not arguments.query:
        show(Table((Column("name", "left"), Column("rows", "left")), list(map(Row, list_queries().items()))))
        return 0
    url, form = arguments.store or find_project().database_url, arguments.format
    with read(url, " ".join(arguments.query), time_limit_s=arguments.time_limit) as rows:
        if form == "parquet":
            write_file([to_parquet(rows)], arguments.output)
        elif arguments.output:
            write_file((text.encode() for text in _texts(rows, form)), arguments.output)
        elif form == "table":
            show(*frame_parts(rows.names, rows.columns(), terminal_width()))
        else:
            for text in _texts(rows, form):
                print(visible_json(text) if form == "json" else text, end="")
    return 0


def _texts(rows: Rows, form: str) -> Iterable[str]:
    from cuprof.results.export import iter_csv, iter_json

    if form == "table":
        return [to_text(frame_parts(rows.names, rows.columns()), 0)]
    return iter_json(rows) if form == "json" else iter_csv(rows)


def frame_parts(names: Sequence[str], values: Sequence[Sequence[Any]], width: float = math.inf) -> Iterator[Part]:
    """Yield columns as a table, or one block a row where the table is wider than `width`; nothing is cut off.

    Numbers are shown to five significant digits, whole numbers in full.
    """
    if not any(values):
        yield Line(f"no rows ({', '.join(names)})" if names else "no rows")
        return
    columns = [
        Column(name, "right" if {float, int} >= set(map(type, column)) - {type(None)} != set() else "left")
        for name, column in zip(names, values, strict=True)
    ]
    table = Table(columns, [Row(tuple(map(_cell, row))) for row in zip(*values, strict=True)])
    if table.width <= width:
        yield table
        return
    longest = max(map(display_width, names))
    for number, row in enumerate(table.rows, 1):
        yield Line(f"── {number} of {len(table.rows)}", "bold")
        for name, cell in zip(names, row.cells, strict=True):
            yield Line(f"{name}{' ' * (longest - display_width(name))}  {cell}".rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return " ".join(str(value).split())


def _number(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0 or 1e-3 <= abs(value) < 1e15:
        decimals = 0 if value == 0 else max(0, 4 - math.floor(math.log10(abs(value))))
        return f"{value:.{decimals}f}"
    return f"{value:.4e}"


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
