"""The command line's entry: find the command by its first word, import it alone, turn errors into exit codes."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import sys
import threading
import traceback
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cuprof import __version__
from cuprof.cli.output import print_error, print_message
from cuprof.cli.stream import guarded_output
from cuprof.core.errors import CuprofError, UnknownNameError, UsageError, explain
from cuprof.core.interrupts import INTERRUPTED, heard, is_requested, shielded
from cuprof.core.processes import leave_checkout, spare_cores
from cuprof.core.text import quote_path


class Command(NamedTuple):
    """What a command is for, and its module; `part` names one of several commands in it."""

    summary: str
    module: str
    is_hydra: bool = False
    part: str = ""

    def run(self, words: Sequence[str]) -> int:
        """Run it on the words after its name, and return the exit code, 0 where it gives none."""
        return int(self._load(f"main_{self.part}" if self.part else "main")(words) or 0)

    @property
    def parser(self) -> ArgumentParser:
        """Return what reads the words of a command without Hydra."""
        parser: ArgumentParser = self._load(self.part.upper() or "PARSER")
        return parser

    def _load(self, name: str) -> Any:
        return getattr(importlib.import_module(f"cuprof.cli.{self.module}"), name)


COMMANDS: dict[str, Command] = {
    "sweep": Command("check, time and store the trials of an experiment", "sweep", is_hydra=True),
    "ncu-collect": Command("collect hardware counters for the same trials", "ncu", is_hydra=True, part="collect"),
    "ncu-import": Command("take in Nsight Compute reports made elsewhere", "ncu", part="import"),
    "report": Command("write the before/after page of an experiment", "sweep", is_hydra=True, part="report"),
    "check": Command("compile every CUDA variant for an architecture, without a GPU", "check"),
    "compare": Command("say what became slower or faster between two sides", "compare"),
    "source": Command("show which lines of a kernel's source the time goes to", "source"),
    "diff": Command("show what differs in source or machine code between two trials", "diff"),
    "judge": Command("say whether somebody's candidate is right, honest and fast", "judge"),
    "status": Command("say how far sweeps are, what runs where, and what has failed", "status"),
    "best": Command("print the fastest configuration of each problem, or export them", "best"),
    "portfolio": Command("find the fewest configurations that are good for every problem", "best", part="portfolio"),
    "query": Command("read the database with SQL or a named query", "query"),
    "list": Command("list families, variants, experiments, devices or metrics", "listing"),
    "merge": Command("take other machines' databases into one", "databases", part="merge"),
    "backup": Command("copy the database while sweeps go on writing", "databases", part="backup"),
    "doctor": Command("say what is installed, what is missing and how to mend it", "doctor"),
    "init": Command("make a project of your own with an example family", "init"),
}

GATES = ("compare", "judge")
FAILURE = 2
"""Exit code of every error of a command whose other codes are verdicts, so that no gate mistakes one for the other."""

GARBAGE = 500_000
"""Objects made between two collections of garbage: modules and rows make millions, and none is garbage."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 fine, 1 something failed, 2 bad input, 130 interrupted.

    Output that cannot be written ends no work. A reader (head, less) that has left is no failure; a full disk is, once
    the work is done.

    Args:
        argv: the words after the program's name; None takes them from the process, which ends here.
    """
    words, is_process = list(sys.argv[1:] if argv is None else argv), argv is None
    if is_process:
        gc.set_threshold(GARBAGE, 50, 100)
        spare_cores()
        if words[:1] == ["judge"]:
            leave_checkout()
    with heard():
        try:
            with guarded_output() as output:
                code = _run(words)
                output.flush()  # what cannot be written is found here, and not while Python ends
                lost = explain(output.failure, is_output=True)
                code = max(code, print_error(lost)) if lost else code
            return _finish(code, is_process)
        except KeyboardInterrupt:  # between two steps; a request is heard once, so there is no other
            return _finish(INTERRUPTED, is_process)


def _finish(code: int, is_process: bool) -> int:
    """Return the exit code, or end the process with it at once: Python would unload a thousand modules first.

    A busy machine takes seconds for that, and a signal that came meanwhile would be the exit code.
    """
    code = INTERRUPTED if code and is_requested() else code
    if is_process:
        with shielded():
            threading._shutdown()  # type: ignore[attr-defined]  # ends pools of processes, which exit functions wait for
            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
                    stream.flush()
            os._exit(code)
    return code


def _run(words: list[str]) -> int:
    try:
        return _dispatch(words)
    except SystemExit as ended:  # a parser that has shown its help
        return int(ended.code or 0)
    except (KeyboardInterrupt, Exception) as error:
        # a library's own tidying up may raise another one over what the request left half made
        if isinstance(error, KeyboardInterrupt) or (is_requested() and not isinstance(error, CuprofError)):
            goes_on = words[:1] in (["sweep"], ["ncu-collect"])
            print_message("interrupted" + "; the same command goes on where this one stopped" * goes_on)
            return INTERRUPTED
        if words[0] in GATES and not explain(error):  # an error of cuprof's own, which Python would end with 1
            traceback.print_exc()
            return FAILURE
        code = print_error(error)
        return FAILURE if words[0] in GATES else code


def help_text() -> str:
    """Return what `cuprof --help` prints."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items())
    return f"""\
usage: cuprof COMMAND [ARGUMENTS]

Check, time, profile and compare GPU kernel variants.

commands:
{commands}

options:
  -h, --help     show this text; cuprof COMMAND --help shows a command's
  -V, --version  show the version

examples:
  cuprof sweep my_kernels.py
  cuprof sweep experiment=reduction
  cuprof sweep problem.n=2**20,2**24 tune.block=64,128,256 variants=sequential,last_warp
  cuprof report experiment=reduction
  cuprof query best
  eval "$(cuprof -sc install=bash)"    completion for this shell"""


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if words[0] in ("-V", "--version", "version"):
        print(f"cuprof {__version__}")
        return 0
    try:
        Path.cwd()  # whatever a command does with a relative path would fail on it
    except FileNotFoundError:
        raise UsageError("the current folder has been removed; change to another one") from None
    if words[0] in ("-sc", "--shell-completion"):
        return Command("", "completion").run(words)
    if (command := COMMANDS.get(words[0])) is None:
        if words[0].endswith(".py"):
            raise UsageError(f"{words[0]} is no command; to run a file, write cuprof sweep {quote_path(words[0])}")
        raise UnknownNameError("command", words[0], COMMANDS)
    return command.run(words[1:])
