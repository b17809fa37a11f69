"""`cuprof best` and `cuprof portfolio`: the fastest configurations of a family, or the fewest that are fast enough."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.cli.arguments import CommandParser, add_store, share
from cuprof.cli.output import emit, show
from cuprof.cli.table import Column, Line, Part, Row, Table
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.records import Measure
from cuprof.core.text import count

if TYPE_CHECKING:
    from cuprof.report.portfolio import Portfolio

FORMS = ("json", "header", "triton", "python")
EXAMPLES = """\
examples:
  cuprof best reduction
  cuprof best reduction --export header --output reduction.h
  cuprof best reduction --within 5% --export python     the fewest that are within 5 % everywhere
  cuprof best matmul --export triton"""
PORTFOLIO_EXAMPLES = """\
examples:
  cuprof sweep family=reduction problem.n=2**16,2**20,2**24 search=surrogate
  cuprof portfolio reduction
  cuprof portfolio reduction --within 2% --header reduction.h
  cuprof best reduction --within 2% --export python     in other forms"""


def main(argv: Sequence[str]) -> int:
    """Print which configuration each problem takes, or write them in another form."""
    arguments = make_parser().parse_args(argv)
    portfolio = read_portfolio(arguments)
    if not arguments.export:
        show(*portfolio_parts(portfolio))
        return 0
    from cuprof.cli.exports import EXPORTERS

    text = EXPORTERS[arguments.export](portfolio)
    if arguments.output:
        write(arguments.output, text, "--output")
    else:
        print(text, end="")
    return 0


def main_portfolio(argv: Sequence[str]) -> int:
    """Print the fewest configurations that serve every problem, and write the header where one is asked for."""
    arguments = make_portfolio_parser().parse_args(argv)
    portfolio = read_portfolio(arguments)
    if arguments.header:
        from cuprof.report.portfolio import to_header

        write(arguments.header, to_header(portfolio), "--header")
    named = name_configurations(portfolio)
    problems = [
        {"problem": pick.problem, "configuration": named[pick.number], "ratio": pick.ratio, "samples": pick.samples}
        for pick in portfolio.picks
    ]
    data = {"device": portfolio.device, "within": portfolio.within, "configurations": named, "problems": problems}
    emit(data, arguments.json, portfolio_parts(portfolio))
    return 0


def read_portfolio(arguments: argparse.Namespace) -> Portfolio:
    """Return the best configurations of a family from its stored runs."""
    from cuprof.core.project import find_project
    from cuprof.families.origin import list_families
    from cuprof.interop.origins import name_family
    from cuprof.report.portfolio import make_portfolio
    from cuprof.results.earlier import list_earlier
    from cuprof.results.sweeps import list_tried_sweeps
    from cuprof.store import Store

    project = find_project()
    url, family = arguments.store or project.database_url, name_family(arguments.family)
    with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
        runs = list_earlier(connection, family, Measure(arguments.measure))
        if not runs:
            known = {*list_families(project.kernel_folders), *(each.family for each in list_tried_sweeps(connection))}
            if family not in known:
                raise UnknownNameError("family", family, known)
    return make_portfolio(family, runs, arguments.within, arguments.device)


def name_configurations(portfolio: Portfolio) -> list[str]:
    """Return each configuration as text: variant and tunables."""
    return [" · ".join(filter(None, [variant, point.label])) for variant, point in portfolio.configurations]


def portfolio_parts(portfolio: Portfolio) -> Iterator[Part]:
    """Yield a table of each problem's configuration, and how sure the choices are."""
    named = name_configurations(portfolio)
    left, right = ("problem", "configuration"), ("median µs", "samples", "of the best")
    picked = [
        (each.problem.label, named[each.number], each.median_ns / 1e3, each.samples, each.ratio)
        for each in portfolio.picks
    ]
    rows = [Row((problem, name, f"{time:.2f}", str(few), f"{ratio:.3f}")) for problem, name, time, few, ratio in picked]
    yield Table([*(Column(name, "left") for name in left), *map(Column, right)], rows)
    keep = f"{'keeps' if len(named) == 1 else 'keep'} {count(len(rows), 'problem')} on {portfolio.device} within"
    best = f"{'is' if len(named) == 1 else 'are'} the best of {count(len(rows), 'problem')} on {portfolio.device}"
    what = f"{keep} {100 * portfolio.within:g}%" if portfolio.within else best
    yield Line(f"{count(len(named), 'configuration')} {what}")
    if few := sum(pick.is_few for pick in portfolio.picks):
        text = f"{few} of these choices {'is' if few == 1 else 'are'} known by few samples, the longest of which counts"
        yield Line(f"{text}; cuprof sweep of them, without search, takes more")


def write(path: Path, text: str, option: str) -> None:
    """Write a file.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option}: {path} cannot be written: {error.strerror}") from error


def make_parser() -> CommandParser:
    """Return the parser of the words of `best`."""
    parser = CommandParser("best", "Print the fastest stored configuration of each problem, or export them.", EXAMPLES)
    parser.add_argument("--export", choices=FORMS, default="", help="the form to write them in")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file (default: the standard output)")
    return _add_choice(parser, within=0.0)


def make_portfolio_parser() -> CommandParser:
    """Return the parser of the words of `portfolio`."""
    text = "Find the fewest configurations that keep every stored problem of a family close to its best."
    parser = CommandParser("portfolio", text, PORTFOLIO_EXAMPLES)
    parser.add_argument("--header", type=Path, metavar="FILE", help="write a C header that picks one by problem")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return _add_choice(parser, within=0.05)


def _add_choice(parser: CommandParser, within: float) -> CommandParser:
    """Add what chooses configurations: the family, how near the best they are, which time and device."""
    help_text = f"of the best time (default: {100 * within:g}%%)"
    parser.add_argument("family", metavar="FAMILY", help="see cuprof list families")
    parser.add_argument("--within", type=share, default=within, metavar="SHARE", help=help_text)
    parser.add_argument("--measure", choices=list(Measure), default="cold", help="which time (default: cold)")
    parser.add_argument("--device", default="", metavar="NAME", help="whose times (default: the newest run's)")
    add_store(parser)
    return parser
