"""`cuprof check`: compile every CUDA variant for a named architecture, with or without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cuprof.cli.arguments import CommandParser
from cuprof.cli.choice import tell_choice
from cuprof.cli.output import print_message
from cuprof.config.composer import compose
from cuprof.config.overrides import quoted
from cuprof.core.project import find_project
from cuprof.core.text import summarize
from cuprof.engine.building import build_selection
from cuprof.families.origin import list_families
from cuprof.report.trials import grouped

DESCRIPTION = """\
Compile all that a family's CUDA variants need for an architecture, and say what the compiler refuses, by file and line.
Compare the arguments of every launch and call with the parameters that its source declares, on every back end; C and
OpenCL C are compiled where they run, by cuprof sweep.
Nothing is run but the family's own functions; no GPU is needed.

FAMILY   a family of the project, or a Python file that calls cuprof.compare
SETTING  variants=…, problem.AXIS=…, tune.NAME=…, as for cuprof sweep; all values of every tunable by default
Alone, `cuprof check` says what can be checked.

Exit code: 0 all compiled, 1 some did not, 2 bad input."""

EXAMPLES = """\
  cuprof check reduction
  cuprof check my_kernels.py --arch sm_100 tune.block=64,128"""

PARSER = CommandParser("check", DESCRIPTION, EXAMPLES)
PARSER.add_argument("family", metavar="FAMILY", nargs="?", default="", help="a family of the project, or a file")
PARSER.add_argument("settings", metavar="SETTING", nargs="*", help="what to take of it")
PARSER.add_argument("--arch", default="sm_90", help="architecture to compile for (default: sm_90)")
PARSER.add_argument("--log", action="store_true", help="print the compiler's whole output where it refuses")


def main(argv: Sequence[str]) -> int:
    """Compile and print; return the exit code."""
    arguments = PARSER.parse_intermixed_args(argv)
    named = arguments.family.removeprefix("family=")  # as for cuprof sweep
    project = find_project()
    if not named or "=" in named:
        return tell_choice("check", project, [*list_families(project.folders("kernels"))])
    config = compose([f"family={quoted(named)}", *arguments.settings], project)
    every, others = build_selection(replace(config, tune={"all": ("all",), **config.tune}), project, arguments.arch)
    faults = [built for built in every if built.error]
    for count, error in summarize(each.error for each in faults if each.is_impossible):
        print_message(f"{count} impossible for {arguments.arch}: {error}")
    refused = grouped((each for each in faults if not each.is_impossible), lambda each: each.error)
    for error, (first, *rest) in refused.items():
        more = f" and {len(rest)} more" if rest else ""
        print_message(f"failed: {first.trial.label}{more}: {error}")
        if arguments.log:
            print_message(first.log)
    called = [each for each in every if not each.is_compiled]
    if compiled := [each for each in every if each.is_compiled]:
        print(f"{sum(not each.error for each in compiled)} of {len(compiled)} programs compile for {arguments.arch}")
    if called:
        right = sum(not each.error for each in called)
        print(f"{right} of {len(called)} programs call their source with the parameters it declares")
        print(f"compiled where they run: {', '.join(dict.fromkeys(each.trial.variant for each in called))}")
    if others:
        print(f"functions and libraries, checked by cuprof sweep alone: {', '.join(others)}")
    return 1 if refused else 0
