"""The argument parser of the commands that are no Hydra applications: errors in one line, help with examples."""

from __future__ import annotations

import argparse
from typing import NoReturn

from cuprof.errors import UsageError


class CommandParser(argparse.ArgumentParser):
    """Parse one command's words.

    Args:
        command: what is typed after `cuprof`.
        description: what the command does.
        epilog: examples, kept line by line.
    """

    def __init__(self, command: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"cuprof {command}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`, which `main` turns into one line and exit code 2."""
        raise UsageError(f"{message}; see {self.prog} --help")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add `--store URL`, by which every command is told of another database than the project's."""
    parser.add_argument("--store", metavar="URL", default="", help="another database, any SQLAlchemy URL")
