"""`cuprof best` and `cuprof portfolio`: the fastest configurations of a family, or the fewest that are fast enough."""

from __future__ import annotations

import argparse
import json
import pprint
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.cli.arguments import CommandParser, share
from cuprof.cli.output import Line, Part, Table, emit, show
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.records import Measure
from cuprof.core.text import count, visible
from cuprof.results.export import write_file

if TYPE_CHECKING:
    from cuprof.report.portfolio import Portfolio

EXAMPLES = """\
  cuprof best reduction
  cuprof best reduction --export header --output reduction.h
  cuprof best reduction --within 5% --export python     the fewest that are within 5 % everywhere
  cuprof best matmul --export triton"""
PORTFOLIO_EXAMPLES = """\
  cuprof sweep family=reduction problem.n=2**16,2**20,2**24 search=surrogate
  cuprof portfolio reduction
  cuprof portfolio reduction --within 2% --header reduction.h
  cuprof best reduction --within 2% --export python     in other forms"""

LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Tunables that Triton takes beside a kernel's own; see triton.Config."""

PARSER = CommandParser(
    "best", "Print the fastest stored configuration of each problem, or export them.", EXAMPLES, store=True
)
PARSER.add_argument(
    "--export", choices=("json", "header", "triton", "python"), default="", help="the form to write them in"
)
PARSER.add_argument("--output", type=Path, metavar="FILE", help="write to a file (default: the standard output)")
PORTFOLIO = CommandParser(
    "portfolio",
    "Find the fewest configurations that keep every stored problem of a family close to its best.",
    PORTFOLIO_EXAMPLES,
    store=True,
    json=True,
)
PORTFOLIO.add_argument("--header", type=Path, metavar="FILE", help="write a C header that picks one by problem")
for _parser, _within in ((PARSER, 0.0), (PORTFOLIO, 0.05)):
    _help = f"of the best time (default: {100 * _within:g}%%)"
    _parser.add_argument("family", metavar="FAMILY", help="see cuprof list families")
    _parser.add_argument("--within", type=share, default=_within, metavar="SHARE", help=_help)
    _parser.add_argument("--measure", choices=list(Measure), default="cold", help="which time (default: cold)")
    _parser.add_argument("--device", default="", metavar="NAME", help="whose times (default: the newest run's)")


def main(argv: Sequence[str]) -> None:
    """Print which configuration each problem takes, or write them in another form."""
    arguments = PARSER.parse_args(argv)
    portfolio = _read(arguments)
    if not arguments.export:
        show(*_parts(portfolio))
        return
    text = _export(portfolio, arguments.export)
    if arguments.output:
        write_file([text.encode()], arguments.output)
    else:
        print(text, end="")


def main_portfolio(argv: Sequence[str]) -> None:
    """Print the fewest configurations that serve every problem, and write the header where one is asked for."""
    arguments = PORTFOLIO.parse_args(argv)
    portfolio = _read(arguments)
    if arguments.header:
        from cuprof.report.portfolio import to_header

        write_file([to_header(portfolio).encode()], arguments.header)
    named = _names(portfolio)
    problems = [
        {"problem": pick.problem, "configuration": named[pick.number], "ratio": pick.ratio, "samples": pick.samples}
        for pick in portfolio.picks
    ]
    data = {"device": portfolio.device, "within": portfolio.within, "configurations": named, "problems": problems}
    emit(data, arguments.json, _parts(portfolio))


def _read(arguments: argparse.Namespace) -> Portfolio:
    from cuprof.core.project import find_project
    from cuprof.families.origin import list_families
    from cuprof.interop.origins import name_family
    from cuprof.report.portfolio import make_portfolio
    from cuprof.results.earlier import list_earlier
    from cuprof.results.sweeps import list_tried_sweeps
    from cuprof.store.store import Store

    family = name_family(arguments.family)
    with Store.reading(arguments.store) as connection:
        runs = list_earlier(connection, family, Measure(arguments.measure), newest=True)
        if not runs:
            tried = {each.family for each in list_tried_sweeps(connection)}
            if family not in (known := tried | {*list_families(find_project().folders("kernels"))}):
                raise UnknownNameError("family", family, known)
        return make_portfolio(family, runs, arguments.within, arguments.device)


def _names(portfolio: Portfolio) -> list[str]:
    return [" · ".join(filter(None, [variant, point.label])) for variant, point in portfolio.configurations]


def _parts(portfolio: Portfolio) -> Iterator[Part]:
    """Yield a table of each problem's configuration, and how sure the choices are."""
    named, numbers = _names(portfolio), ("median µs", "samples", "of the best")
    rows = [
        (each.problem.label, named[each.number], f"{each.median_ns / 1e3:.2f}", str(each.samples), f"{each.ratio:.3f}")
        for each in portfolio.picks
    ]
    yield Table(("problem", "configuration", *numbers), rows, numbers)
    is_one, problems = len(named) == 1, f"{count(len(rows), 'problem')} on {portfolio.device}"
    what = f"{'is' if is_one else 'are'} the best of {problems}"
    if portfolio.within:
        what = f"{'keeps' if is_one else 'keep'} {problems} within {100 * portfolio.within:g}%"
    yield Line(f"{count(len(named), 'configuration')} {what}")
    if portfolio.elsewhere:
        others = (
            f"{name} (faster at {count(faster, 'problem')})" if faster else name
            for name, faster in portfolio.elsewhere.items()
        )
        yield Line(f"also stored: times on {', '.join(others)}; choose with --device")
    if few := sum(pick.is_few for pick in portfolio.picks):
        text = f"{few} of these choices {'is' if few == 1 else 'are'} known by few samples, the longest of which counts"
        yield Line(f"{text}; cuprof sweep of them, without search, takes more")


def _export(portfolio: Portfolio, form: str) -> str:
    """Return the configurations as JSON, a C header, or a module of Python or Triton that programs read."""
    if form == "json":
        whole = {name: getattr(portfolio, name) for name in ("family", "device", "within")} | {"problems": []}
        for pick in portfolio.picks:
            variant, tunables = portfolio.configurations[pick.number]
            facts = {name: getattr(pick, name) for name in ("median_ns", "samples", "ratio")}
            whole["problems"].append(
                {"problem": dict(pick.problem), "variant": variant, "tunables": dict(tunables), **facts}
            )
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    from cuprof.report.portfolio import to_header
    from cuprof.report.templates import render_text

    if form == "header":
        return to_header(portfolio, "best")
    best = f"within {100 * portfolio.within:g}% of the best" if portfolio.within else "the best"
    text = f"{portfolio.family} on {portfolio.device}: {best} of each problem. Written by cuprof best."
    heading = visible(text, keep="").replace("\\", "/").replace('"', "'")
    if form == "triton":
        configurations = f"[\n{''.join(map(_to_triton, portfolio.configurations))}]"
    else:
        configurations = _literal([(variant, dict(point)) for variant, point in portfolio.configurations])
    problems = _literal([(dict(pick.problem), pick.number) for pick in portfolio.picks])
    facts = {"heading": heading, "configurations": configurations, "problems": problems}
    return render_text("configurations.txt", form=form, **facts)


def _to_triton(configuration: tuple[str, Any]) -> str:
    """Return the line of one `triton.Config`, for `triton.autotune` or to pick from by problem."""
    variant, point = configuration
    own = {name: value for name, value in point.items() if name not in LAUNCH}
    if odd := next((name for name in own if not name.isidentifier()), ""):
        raise UsageError(f"{odd!r} cannot be the name of a Triton kernel's parameter; take --export json")
    words = [repr(own), *(f"{name}={point[name]!r}" for name in LAUNCH if name in point)]
    return f"    triton.Config({', '.join(words)}),  # {visible(variant, keep='')}\n"


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=100, sort_dicts=False)
