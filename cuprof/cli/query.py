"""`cuprof query`: read the database with SQL, a view or a named query."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from cuprof.cli.arguments import CommandParser, number
from cuprof.cli.output import GAP, Line, Part, Table, display_width, show, terminal_width, to_text, total_width
from cuprof.core.errors import UsageError, suggest
from cuprof.core.text import count, visible_json
from cuprof.results import queries
from cuprof.results.export import iter_csv, iter_json, iter_parquet, write_file

TIME_LIMIT_S, LEAST_S = 600.0, 1e-6
DETAIL = re.compile(r"(.*_)?(id|json|key|hash)|identity|method|recorded_at")
"""Columns of a view that only programs read."""
LONG = 40
"""Columns of a terminal that a column of words gets before it wraps."""
MISSING = re.compile(r"no such (column|table): ([\w.]+)|(column|relation) \"?([\w.]+)\"? does not exist")
"""How SQLite and PostgreSQL report an unknown column or table."""

EXAMPLES = """\
  cuprof query                                   the named queries and views
  cuprof query best
  cuprof query "SELECT variant, median_us FROM timings WHERE measure = 'cold' ORDER BY median_us"
  cuprof query before_after --format csv --output before_after.csv
  cuprof query trials --format json | jq '.[0]'"""

PARSER = CommandParser(
    "query",
    "Read the database, never change it: SQL, a view (trials, timings, best, …) or a named query.\n"
    "Control characters in values are shown as escapes (\\x1b); a file (--output) has them as they are stored.",
    EXAMPLES,
    store=True,
)
PARSER.add_argument("query", metavar="SQL|NAME", nargs="*", help="SQL, or the name of a query or view")
_formats, _help = ("table", "csv", "json", "parquet"), "how the rows are written (default: table)"
PARSER.add_argument("--format", choices=_formats, default="table", help=_help)
PARSER.add_argument("--full", action="store_true", help="of a view also the columns that only programs read")
PARSER.add_argument("--output", metavar="FILE", type=Path, help="write to a file in place of the standard output")
PARSER.add_argument(
    "--time-limit",
    metavar="SECONDS",
    type=number(LEAST_S, math.inf, "number of seconds above 0; write 60 or inf", float),
    default=TIME_LIMIT_S,
    help=f"how long the database may work on it (default: {TIME_LIMIT_S:g}; inf: as long as it takes)",
)


def main(argv: Sequence[str]) -> None:
    """Print or write the rows."""
    arguments = PARSER.parse_args(argv)
    if arguments.format == "parquet" and arguments.output is None:
        raise UsageError("parquet is not text; add --output FILE.parquet")
    if not arguments.query:
        show(Table(("name", "rows"), list(queries.list_queries().items())))
        return
    url, form, text = arguments.store, arguments.format, " ".join(arguments.query)
    with _suggesting(url, text), queries.read(url, text, time_limit_s=arguments.time_limit) as rows:
        if form == "parquet":
            write_file(iter_parquet(rows), arguments.output)
        elif arguments.output:
            write_file((text.encode() for text in _texts(rows, form)), arguments.output)
        elif form == "table":
            is_view = text.replace("-", "_").isidentifier() and not arguments.full
            show(*(view_parts if is_view else frame_parts)(rows.names, rows.columns(), terminal_width()))
        else:
            for text in _texts(rows, form):
                print(visible_json(text) if form == "json" else text, end="")


def _texts(rows: queries.Rows, form: str) -> Iterable[str]:
    if form == "table":
        return [to_text(frame_parts(rows.names, rows.columns()), 0)]
    return iter_json(rows) if form == "json" else iter_csv(rows)


def frame_parts(names: Sequence[str], values: Sequence[Sequence[Any]], width: float = math.inf) -> Iterator[Part]:
    """Yield columns as a table, or one block a row where the table is wider than `width`; nothing is cut off.

    Numbers are shown to five significant digits, whole numbers in full.
    """
    table = to_table(names, values)
    if not table.rows:
        yield Line(f"no rows ({', '.join(names)})" if names else "no rows")
    elif total_width(table.widths) <= width:
        yield table
    else:
        longest = max(map(display_width, names))
        for place, row in enumerate(table.rows, 1):
            yield Line(f"── {place} of {len(table.rows)}", "bold")
            for name, cell in zip(names, row, strict=True):
                yield Line(f"{name}{' ' * (longest - display_width(name))}  {cell}".rstrip())


def view_parts(names: Sequence[str], values: Sequence[Sequence[Any]], width: int) -> Iterator[Part]:
    """Yield as many of a view's columns as fit in `width`, and a note about the others."""
    if not any(values):
        yield from frame_parts(names, values)
        return
    kept = {
        name: each
        for name, each in zip(names, values, strict=True)
        if (name == names[0] == "sweep_id" or not DETAIL.fullmatch(name))  # other commands take a sweep's number
        and any(value not in (None, "") for value in each)
    }
    same = {name: each[0] for name, each in kept.items() if len(each) > 1 and len(set(each)) == 1}
    shown = [name for name in kept if name not in same]
    table = to_table(shown, [kept[name] for name in shown])
    ends = accumulate(min(each, LONG) + len(GAP) for each in table.widths)
    fitting = max(1, sum(end - len(GAP) <= width for end in ends))
    yield Table(shown[:fitting], [row[:fitting] for row in table.rows], table.numbers)
    if same:
        yield Line(f"in every row: {', '.join(f'{name} {_cell(value)}' for name, value in same.items())}")
    methods = len(set(values[names.index("method")])) if "method" in names else 1
    if methods > 1:
        yield Line(f"measured by {methods} methods, whose times are not ranked together; --full names them")
    if hidden := len(names) - min(fitting, len(shown)) - len(same):
        yield Line(f"{count(hidden, 'column')} left out; --full shows all")


def to_table(names: Sequence[str], values: Sequence[Sequence[Any]]) -> Table:
    """Return columns as a table, numbers to the right."""
    kinds = [set(map(type, column)) - {type(None)} for column in values]
    numbers = [name for name, each in zip(names, kinds, strict=True) if each and each <= {float, int}]
    return Table(names, [list(map(_cell, row)) for row in zip(*values, strict=True)], numbers)


@contextmanager
def _suggesting(url: str, text: str) -> Iterator[None]:
    """Add the nearest names to the error about an unknown column or table."""
    try:
        yield
    except UsageError as error:
        if not (missing := MISSING.search(str(error))):
            raise
        from cuprof.store.tables import METADATA

        name = (missing[2] or missing[4]).rpartition(".")[2]
        views = queries.list_queries()
        known = {*views, *METADATA.tables}
        if "column" in missing[0]:
            asked, known, holders = known & set(re.findall(r"\w+", text)), set(), []
            for relation in sorted(asked):
                with suppress(UsageError), queries.read(url, f'SELECT * FROM "{relation}" LIMIT 0') as rows:
                    known |= set(rows.names)
                    holders += [relation] if name in rows.names else []
            if holders:  # the query reads it from another relation, or not from this one
                raise UsageError(f"{error}; it is a column of {', '.join(holders)}") from None
        elif name in views:
            raise UsageError(f"{error}; {name} is a query of its own: cuprof query {name}") from None
        raise UsageError(f"{error}; {suggest(name, known)}") from None


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if not isinstance(value, float):
        return " ".join(str(value).split())
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 1e15:
        return f"{value:.{max(0, 4 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.4e}"
