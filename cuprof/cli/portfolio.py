"""`cuprof portfolio`: the fewest configurations that are good for every problem of a family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.cli.arguments import CommandParser, add_store, share
from cuprof.cli.output import print_json, show
from cuprof.cli.table import Column, Line, Part, Row, Table
from cuprof.core.errors import UsageError
from cuprof.core.records import Measure
from cuprof.core.text import count

if TYPE_CHECKING:
    from cuprof.report.portfolio import Portfolio

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
        print_json(_as_data(portfolio, named))
    else:
        show(*_parts(portfolio, named))
    return 0


def _as_data(portfolio: Portfolio, named: Sequence[str]) -> dict[str, Any]:
    problems = [
        {
            "problem": dict(pick.problem),
            "configuration": named[pick.number],
            "ratio": pick.ratio,
            "samples": pick.samples,
        }
        for pick in portfolio.picks
    ]
    return {"device": portfolio.device, "within": portfolio.within, "configurations": named, "problems": problems}


def _parts(portfolio: Portfolio, named: Sequence[str]) -> Iterator[Part]:
    left, right = ("problem", "configuration"), ("median µs", "samples", "of the best")
    rows = [
        (
            pick.problem.label,
            named[pick.number],
            f"{pick.median_ns / 1e3:.2f}",
            str(pick.samples),
            f"{pick.ratio:.3f}",
        )
        for pick in portfolio.picks
    ]
    yield Table([*(Column(name, "left") for name in left), *map(Column, right)], list(map(Row, rows)))
    kept = f"{'keeps' if len(named) == 1 else 'keep'} {count(len(rows), 'problem')} on {portfolio.device}"
    yield Line(f"{count(len(named), 'configuration')} {kept} within {100 * portfolio.within:g}%")
    if few := sum(pick.is_few for pick in portfolio.picks):
        text = f"{few} of these choices {'is' if few == 1 else 'are'} known by few samples, the longest of which counts"
        yield Line(f"{text}; cuprof sweep of them, without search, takes more")


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
