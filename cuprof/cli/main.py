"""The command line's entry: find the command by its first word, import it alone, turn errors into exit codes."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cuprof import __version__
from cuprof.cli.output import print_message
from cuprof.cli.stream import guarded_output
from cuprof.core.errors import CuprofError, StoreError, suggest
from cuprof.core.interrupts import INTERRUPTED, heard, is_requested, shielded
from cuprof.core.processes import spare_cores


@dataclass(frozen=True)
class Command:
    """Name the module of one command, its functions, and its summary.

    Args:
        main: takes the words after the command and returns the exit code.
        parser: makes the parser of the words of a command without Hydra.
    """

    module: str
    summary: str
    is_hydra: bool = False
    main: str = "main"
    parser: str = "make_parser"

    def load(self, name: str) -> Callable[..., Any]:
        """Return a function of the module, imported now."""
        return getattr(importlib.import_module(self.module), name)  # type: ignore[no-any-return]


COMMANDS: dict[str, Command] = {
    "sweep": Command("cuprof.cli.sweep", "check, time and store the trials of an experiment", is_hydra=True),
    "ncu-collect": Command("cuprof.cli.ncu_collect", "collect hardware counters for the same trials", is_hydra=True),
    "ncu-import": Command("cuprof.cli.ncu_import", "take in Nsight Compute reports made elsewhere"),
    "report": Command("cuprof.cli.report", "write the before/after page of an experiment", is_hydra=True),
    "check": Command("cuprof.cli.check", "compile every variant for an architecture, without a GPU"),
    "compare": Command("cuprof.cli.compare", "say what became slower or faster between two sides"),
    "source": Command("cuprof.cli.source", "show which lines of a kernel's source the time goes to"),
    "diff": Command("cuprof.cli.diff", "show what differs in source or machine code between two trials"),
    "judge": Command("cuprof.cli.judge", "say whether somebody's candidate is right, honest and fast"),
    "status": Command("cuprof.cli.status", "say how far sweeps are, what runs where, and what has failed"),
    "best": Command("cuprof.cli.best", "print the fastest configuration of each problem, or export them"),
    "portfolio": Command(
        "cuprof.cli.best",
        "find the fewest configurations that are good for every problem",
        main="main_portfolio",
        parser="make_portfolio_parser",
    ),
    "query": Command("cuprof.cli.query", "read the database with SQL or a named query"),
    "list": Command("cuprof.cli.listing", "list families, variants, experiments, devices or metrics"),
    "merge": Command("cuprof.cli.merge", "take other machines' databases into one"),
    "backup": Command("cuprof.cli.backup", "copy the database while sweeps go on writing"),
    "doctor": Command("cuprof.cli.doctor", "say what is installed, what is missing and how to mend it"),
    "init": Command("cuprof.cli.init", "make a project of your own with an example family"),
}

GARBAGE = 500_000
"""Objects made between two collections of garbage: modules and rows make millions, and none is garbage."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


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
    with heard():
        try:
            return _finish(_work(words), is_process)
        except KeyboardInterrupt:  # between two steps; a request is heard once, so there is no other
            return _finish(INTERRUPTED, is_process)


def _work(words: list[str]) -> int:
    with guarded_output() as output:
        code = _run(words)
        output.flush()  # what cannot be written is found here, and not while Python ends
        lost = explain_full(output.failure)
        if lost:
            print_message(f"error: {lost}")
            code = max(code, lost.exit_code)
    return code


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
    except CuprofError as error:
        print_message(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return _tell_interrupted()
    except SystemExit as ended:  # a parser that has shown its help
        return int(ended.code or 0)
    except Exception as error:
        if is_requested():  # a library's own tidying up raised this over what the request had left half made
            return _tell_interrupted()
        explained = explain_full(error)
        if explained is None:
            raise
        print_message(f"error: {explained}")
        return explained.exit_code


def _tell_interrupted() -> int:
    print_message("interrupted; the same command goes on where this one stopped")
    return INTERRUPTED


def explain_full(error: Exception | None) -> StoreError | None:
    """Return the error to show where a disk or a quota is full, or None for any other error."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return None
    return StoreError(f"the output cannot be written: {error.strerror}")


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
  cuprof sweep experiment=reduction
  cuprof sweep problem.n=2**20,2**24 tune.block=64,128,256 variants=sequential,last_warp
  cuprof report experiment=reduction
  cuprof query best
  eval "$(cuprof -sc install=bash)"    completion for this shell"""


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"cuprof {__version__}")
        return 0
    if words[0] in ("-sc", "--shell-completion"):
        return Command("cuprof.cli.completion", "").load("main")(words)  # type: ignore[no-any-return]
    command = COMMANDS.get(words[0])
    if command is None:
        print_message(f"error: unknown command {words[0]!r}: {suggest(words[0], COMMANDS)}")
        return 2
    return command.load(command.main)(words[1:])  # type: ignore[no-any-return]
