"""The argument parser of commands without Hydra: errors in one line, help with examples."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from cuprof.core.errors import UsageError, suggest
from cuprof.core.project import database_url, find_project

Number = TypeVar("Number", int, float)


class CommandParser(argparse.ArgumentParser):
    """Parse the words of one command; its description, and notes and examples below the options, keep their lines.

    With `store` it takes `--store URL` of another database, by default the project's; with `json` it takes `--json`.
    """

    def __init__(
        self, command: str, description: str, examples: str, *, notes: str = "", store: bool = False, json: bool = False
    ) -> None:
        super().__init__(
            prog=f"cuprof {command}",
            description=description,
            epilog="\n\n".join(filter(None, [notes, f"examples:\n{examples}"])),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if store:
            text = "another database: an SQLite file, or any SQLAlchemy URL"
            self.add_argument("--store", metavar="URL", type=_find_url, default="", help=text)
        if json:
            self.add_argument("--json", action="store_true", help="print JSON")

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`, which `main` turns into one line and exit code 2; it names near misses."""
        if option := re.match(r"unrecognized arguments: (-\S+)", message):
            message = f"unknown option {option[1]}: {self.find_hint(option[1])}"
        elif choice := re.fullmatch(r"(.*)invalid choice: '(.*)' \(choose from (.*)\)", message):
            near = suggest(choice[2], re.findall("'(.*?)'", choice[3]))
            message = f"{choice[1]}{choice[2]!r} is not known: {near}"
        raise UsageError(f"{message}; see {self.prog} --help")

    def find_hint(self, option: str) -> str:
        """Return what may have been meant by an option that does not exist."""
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        return suggest(option, flags)


def _find_url(text: str) -> str:
    return database_url(text) if text else find_project().database_url


def add_rule(parser: argparse.ArgumentParser, noise: str) -> None:
    """Add the options that decide verdicts: effect, error rate and noise."""
    parser.add_argument("--effect", type=share, default=0.01, help="smallest difference that matters (default: 1%%)")
    parser.add_argument("--error-rate", type=share, default=0.05, help="of all verdicts together (default: 5%%)")
    parser.add_argument("--noise", type=_noise, help=noise)


def share(text: str) -> float:
    """Return "1%" or "0.01" as a share; raise `argparse.ArgumentTypeError` for any other text."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (text.endswith("%") or value < 1):  # a 5 is not 500 %
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 1% or 0.01")


def _noise(text: str) -> float:
    if (value := share(text)) < 0 or value >= 1:
        raise argparse.ArgumentTypeError(f"the noise is {text}; give a share from 0 up to 1, such as 0.2% or 0.002")
    return value


def number(low: float, high: float, what: str, kind: type[Number]) -> Callable[[str], Number]:
    """Return a reader of numbers from `low` to `high`; its error says that the text is no `what`."""

    def read(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = kind(low) - 1
        if not low <= value <= high:  # NaN is neither
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
        return value

    return read
