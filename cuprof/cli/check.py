"""`cuprof check`: compile every variant for a named architecture, with or without a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import print_message
from cuprof.core.errors import UsageError
from cuprof.core.text import summarize

if TYPE_CHECKING:
    from cuprof.engine.building import Built

DESCRIPTION = """\
Compile all that a family's variants need for an architecture, and say what the compiler refuses, by file and line.
Compare the arguments of every launch and call with the parameters that its source declares, on every back end.
Nothing is run but the family's own functions; no GPU is needed.

FAMILY   a family of the project, or a Python file that calls cuprof.compare
SETTING  variants=…, problem.AXIS=…, tune.NAME=…, as for cuprof sweep; all values of every tunable by default

Exit code: 0 all compiled, 1 some did not, 2 bad input."""

EXAMPLES = """\
examples:
  cuprof check reduction
  cuprof check my_kernels.py --arch sm_100 tune.block=64,128"""


def main(argv: Sequence[str]) -> int:
    """Compile and print; return the exit code."""
    arguments = _parse(argv)
    from cuprof.cli import hydra_app
    from cuprof.cli.hydra_arguments import quoted
    from cuprof.core.project import find_project
    from cuprof.engine.building import prepare_building

    project = find_project()
    settings = [f"family={quoted(arguments.family)}", *arguments.settings]
    config = hydra_app.compose(settings, project)
    building = prepare_building(replace(config, tune={"all": ("all",), **config.tune}), project)
    refused: dict[str, list[Built]] = {}
    passed = 0
    for built in building.run(arguments.arch):
        passed += not built.error
        if built.error:
            refused.setdefault(built.error, []).append(built)
    impossible = [error for error, group in refused.items() for each in group if each.is_impossible]
    for count, error in summarize(impossible):
        print_message(f"{count} impossible for {arguments.arch}: {error}")
    for error, group in refused.items():
        if group[0].is_impossible:
            continue
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        print_message(f"failed: {group[0].trial.label}{more}: {error}")
        if arguments.log:
            print_message(group[0].log)
    failed = sum(map(len, refused.values())) - len(impossible)
    print(f"{passed} of {len(building.programs)} programs compile for {arguments.arch}")
    if building.others:
        print(f"compiled where they run: {', '.join(building.others)}")
    return 1 if failed else 0


def make_parser() -> CommandParser:
    """Return the parser of the command's words."""
    parser = CommandParser("check", DESCRIPTION, EXAMPLES)
    parser.add_argument("family", metavar="FAMILY", help="a family of the project, or a Python file")
    parser.add_argument("settings", metavar="SETTING", nargs="*", help="what to take of it")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile for (default: sm_90)")
    parser.add_argument("--log", action="store_true", help="print the compiler's whole output where it refuses")
    return parser


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    arguments = make_parser().parse_intermixed_args(argv)
    for setting in arguments.settings:
        if "=" not in setting:
            raise UsageError(f"{setting!r} is no setting; write NAME=VALUE, and see cuprof check --help")
    return arguments
