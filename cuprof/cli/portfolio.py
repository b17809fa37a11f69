"""`cuprof portfolio`: the fewest configurations that are good for every problem of a family."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuprof.cli.arguments import CommandParser, add_store, share
from cuprof.cli.terminal.output import print_json, print_lines, terminal_width
from cuprof.cli.terminal.table import Column, Line, Row, layout
from cuprof.core.errors import UsageError
from cuprof.core.records import Measure
from cuprof.core.text import count

EXAMPLES = """\
examples:
  cuprof sweep family=reduction problem.n=2**16,2**20,2**24 search=surrogate
  cuprof portfolio reduction
  cuprof portfolio reduction --within 2% --header reduction.h"""


def main(argv: Sequence[str]) -> int:
    """Print which configuration each problem takes, and write the header where one is asked for."""
    arguments = make_parser().parse_args(argv)
    from cuprof.core.project import find_project
    from cuprof.report.portfolio import make_portfolio, to_header
    from cuprof.results.earlier import list_earlier
    from cuprof.store import Store

    url = arguments.store or find_project().database_url
    with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
        runs = list_earlier(connection, arguments.family, Measure(arguments.measure))
    portfolio = make_portfolio(arguments.family, runs, arguments.within, arguments.device)
    named = [" · ".join(filter(None, [variant, point.label])) for variant, point in portfolio.configurations]
    if arguments.header:
        try:
            arguments.header.write_text(to_header(portfolio))
        except OSError as error:
            raise UsageError(f"--header: {arguments.header} cannot be written: {error.strerror}") from error
    if arguments.json:
        taken = [
            {
                "problem": dict(pick.problem),
                "configuration": named[pick.number],
                "ratio": pick.ratio,
                "samples": pick.samples,
            }
            for pick in portfolio.picks
        ]
        print_json({"device": portfolio.device, "within": portfolio.within, "configurations": named, "problems": taken})
        return 0
    left, right = ("problem", "configuration"), ("median µs", "samples", "of the best")
    columns = [*(Column(name, "left") for name in left), *map(Column, right)]
    rows = [
        Row(
            (
                pick.problem.label,
                named[pick.number],
                f"{pick.median_ns / 1e3:.2f}",
                str(pick.samples),
                f"{pick.ratio:.3f}",
            )
        )
        for pick in portfolio.picks
    ]
    kept = f"{'keeps' if len(named) == 1 else 'keep'} {count(len(rows), 'problem')} on {portfolio.device}"
    text = f"{count(len(named), 'configuration')} {kept} within {100 * arguments.within:g}%"
    lines = [*layout(columns, rows, terminal_width()), Line(text)]
    if few := sum(pick.is_few for pick in portfolio.picks):
        text = f"{few} of these choices {'is' if few == 1 else 'are'} known by few samples, the longest of which counts"
        lines.append(Line(f"{text}; cuprof sweep of them, without search, takes more"))
    print_lines(lines)
    return 0


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser(
        "portfolio",
        "Find the fewest configurations that keep every stored problem of a family close to its best.",
        EXAMPLES,
    )
    parser.add_argument("family", metavar="FAMILY", help="see cuprof list families")
    parser.add_argument("--within", type=share, default=0.05, metavar="SHARE", help="of the best time (default: 5%%)")
    parser.add_argument("--measure", choices=list(Measure), default="cold", help="which time (default: cold)")
    parser.add_argument("--device", default="", metavar="NAME", help="whose times (default: the newest run's)")
    parser.add_argument("--header", type=Path, metavar="FILE", help="write a C header that picks one by problem")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_store(parser)
    return parser
