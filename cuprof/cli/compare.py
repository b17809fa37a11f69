"""`cuprof compare`: is NEW slower or faster than BASE, and how sure is that?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cuprof.cli.arguments import CommandParser, add_rule, add_store, run_verdict
from cuprof.cli.terminal.output import print_message
from cuprof.core.errors import UsageError
from cuprof.core.records import Measure

FORMATS = ("table", "json", "markdown")

DESCRIPTION = """\
Compare two sides, trial by trial: faster, slower, same or undecided, with the ratio of the times and its interval.

BASE and NEW are each one of
  12, latest, latest~1         a stored sweep
  reduction/last_warp          a variant, where both ran last, problem by problem (last_warp with experiment=reduction)
  git:abc123, git:HEAD~1       every sweep of a commit, or of what git knows by that name
  runs.sqlite, runs.sqlite:3   the newest or the given sweep of another database file (or URL, URL#3)
  out.json                     what nvbench wrote with --json or --jsonbin; a cache of Kernel Tuner's, or T4

Exit code: 0 nothing slower, 1 something slower (or right in BASE and failing in NEW), 2 bad input or any error."""

MEANING = """\
what the verdict means:
  slower     the interval of the ratio NEW/BASE lies above 1, and the ratio is 1 + effect or more
  faster     the interval lies below 1, and the ratio is 1 / (1 + effect) or less
  same       the whole interval lies between 1 / (1 + effect) and 1 + effect
  undecided  none of these: more samples would tell; see --sample-more
If nothing at all has changed, the chance that even one of all comparisons is called slower or faster is at most the
error rate (5 %), whatever their number (Holm's correction).

examples:
  cuprof compare reduction/sequential reduction/last_warp
  cuprof compare sequential last_warp experiment=reduction --sample-more
  cuprof compare latest~1 latest --markdown
  cuprof compare main.sqlite change.sqlite --effect 2% --json
  cuprof compare git:4f1c2aa git:9be01d7 --measure hot
  cuprof compare before.json after.json"""


def main(argv: Sequence[str]) -> int:
    """Print the comparison; return 1 where something is slower or broken, and 2 after any error."""
    return run_verdict(_compare, argv)


def _compare(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    from cuprof.cli.terminal.comparison import print_comparison
    from cuprof.cli.terminal.progress import make_observer
    from cuprof.comparison import Options, compare, load_sides
    from cuprof.comparison.sample_more import reason_against, sample_more
    from cuprof.core.project import find_project
    from cuprof.core.records import Measure
    from cuprof.statistics import Rule

    project = find_project()
    url = arguments.store or project.database_url
    base, new = load_sides(arguments.base, arguments.new, url, arguments.experiment, arguments.sweep)
    against = reason_against(base, new) if arguments.sample_more else ""
    looks = 2 if arguments.sample_more and not against else 1
    options = Options(
        rule=Rule(arguments.effect, arguments.error_rate / looks),
        measures=tuple(map(Measure, dict.fromkeys(arguments.measure or ()))),
        noise=arguments.noise,
        tunables=arguments.tunables,
    )
    comparison = compare(base, new, options)
    if against:
        print_message(f"--sample-more: {against}")
    elif arguments.sample_more and comparison.undecided:
        comparison = sample_more(comparison, project, make_observer)
    print_comparison(comparison, arguments.format, everything=arguments.all)
    return comparison.exit_code


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser("compare", DESCRIPTION, MEANING)
    parser.add_argument("base", metavar="BASE", help="the side before")
    parser.add_argument("new", metavar="NEW", help="the side after")
    parser.add_argument(
        "settings", metavar="experiment=NAME", nargs="*", default=[], help="narrows latest and plain variant names"
    )
    parser.add_argument("--measure", choices=list(Measure), action="append", help="which time; default cold and hot")
    add_rule(
        parser,
        noise="how much any time varies from sweep to sweep, as a standard deviation (default: estimated from "
        "unchanged trials, else assumed: from 0.2%% and 75 ns for a CUDA kernel to 5%% on a CPU; the output names it)",
    )
    parser.add_argument(
        "--tunables", choices=("best", "equal"), default="best", help="of two variants: each at its fastest, or equal"
    )
    parser.add_argument("--sample-more", action="store_true", help="time undecided variants again, side by side")
    parser.add_argument("--sweep", type=int, metavar="ID", help="the sweep that variants are taken from")
    parser.add_argument("--all", action="store_true", help="list every trial that is the same")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--format", choices=FORMATS, default="table", help="how it is written (default: table)")
    formats.add_argument("--json", dest="format", action="store_const", const="json", help="as JSON")
    formats.add_argument("--markdown", dest="format", action="store_const", const="markdown", help="as Markdown")
    add_store(parser)
    return parser


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    arguments = make_parser().parse_intermixed_args(argv)
    arguments.experiment = ""
    for setting in arguments.settings:
        name, equals, value = setting.partition("=")
        if name != "experiment" or not equals:
            raise UsageError(f"{setting!r} is no setting of this command; beside BASE and NEW there is experiment=NAME")
        arguments.experiment = value
    return arguments
