"""`cuprof portfolio`: the fewest configurations that are good for every problem of a family."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuprof.cli.arguments import CommandParser
from cuprof.cli.best import add_portfolio, name_configurations, portfolio_parts, read_portfolio, write
from cuprof.cli.output import emit

EXAMPLES = """\
examples:
  cuprof sweep family=reduction problem.n=2**16,2**20,2**24 search=surrogate
  cuprof portfolio reduction
  cuprof portfolio reduction --within 2% --header reduction.h
  cuprof best reduction --within 2% --export python     in other forms"""


def main(argv: Sequence[str]) -> int:
    """Print which configuration each problem takes, and write the header where one is asked for."""
    arguments = make_parser().parse_args(argv)
    portfolio = read_portfolio(arguments)
    if arguments.header:
        from cuprof.report.portfolio import to_header

        write(arguments.header, to_header(portfolio), "--header")
    named = name_configurations(portfolio)
    problems = [
        {
            "problem": dict(pick.problem),
            "configuration": named[pick.number],
            "ratio": pick.ratio,
            "samples": pick.samples,
        }
        for pick in portfolio.picks
    ]
    data = {"device": portfolio.device, "within": portfolio.within, "configurations": named, "problems": problems}
    emit(data, arguments.json, portfolio_parts(portfolio))
    return 0


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser(
        "portfolio",
        "Find the fewest configurations that keep every stored problem of a family close to its best.",
        EXAMPLES,
    )
    add_portfolio(parser, within=0.05)
    parser.add_argument("--header", type=Path, metavar="FILE", help="write a C header that picks one by problem")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
