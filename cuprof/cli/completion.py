"""Shell completion: commands, options, settings, and what a family decides.

`eval "$(cuprof -sc install=bash)"` installs Hydra's shell function for `cuprof`; the shell then asks
`cuprof -sc query=bash` with the line in `COMP_LINE`.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import SUPPRESS
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cuprof.cli.choice import list_choices
from cuprof.cli.main import COMMANDS
from cuprof.config.build import list_settings
from cuprof.config.composer import Composer, compose
from cuprof.config.overrides import GROUPS
from cuprof.core.errors import CuprofError, UsageError
from cuprof.core.project import find_project
from cuprof.families.origin import list_families

if TYPE_CHECKING:
    from cuprof.config import SweepConfig
    from cuprof.families import Family

_OF_FAMILY = re.compile(r"(?:variants=|baseline=|problem\.|tune\.)")
_CHOICE = re.compile(r"(?:experiment|family)=.+")


def main(argv: Sequence[str]) -> int:
    """Print a shell's completion function, or the words that complete `COMP_LINE`."""
    action = argv[1] if len(argv) > 1 else ""
    if not re.fullmatch(r"(install|uninstall|query)=(bash|zsh|fish)", action):
        raise UsageError('completion takes install=SHELL; write eval "$(cuprof -sc install=bash)" (or zsh, fish)')
    if not action.startswith("query="):
        return _print_function(action)
    command, space, arguments = os.environ.get("COMP_LINE", "").partition(" ")[2].lstrip().partition(" ")
    *before, word = arguments.split(" ")
    if not space:
        found = [name for name in COMMANDS if name.startswith(command)]
    elif command in COMMANDS and COMMANDS[command].is_hydra:
        found = _of_family(before, word) if _OF_FAMILY.match(word) else _settings(word)
    else:
        found = [name for name in _words(command) if name.startswith(word)]
    print(("\n" if action.endswith("fish") else " ").join(found))
    return 0


def _words(command: str) -> tuple[str, ...]:
    """Return what may follow a command that is no Hydra application."""
    if command not in COMMANDS:
        return ()
    parser = COMMANDS[command].load(COMMANDS[command].parser)
    named = (
        word
        for action in parser._actions
        for word in (*(action.choices or ()), *action.option_strings)
        if action.help != SUPPRESS and (not action.option_strings or word.startswith("--"))
    )
    words = tuple(word for word in named if word != "--help")
    if command == "query":
        from cuprof.results.queries import list_queries

        return (*list_queries(), *words)
    if command in ("judge", "check", "best", "portfolio"):
        return (*list_families(find_project().kernel_folders), *words)
    return words


def _of_family(before: Sequence[str], word: str) -> list[str]:
    """Return what completes an axis, a tunable or variants; nothing where no single family is chosen."""
    from cuprof.interop.origins import find_origin

    project = find_project()
    try:
        config = compose([text for text in before if _CHOICE.fullmatch(text)], project)
        family = find_origin(config.family, project.kernel_folders).load()
    except CuprofError:
        return []
    key, equals, value = word.partition("=")
    values = _values(family, config)
    if not equals:
        return [f"{name}=" for name in values if name.startswith(word)]
    return _complete_list(key, value, values.get(key, ()))


def _values(family: Family, config: SweepConfig) -> dict[str, Iterable[object]]:
    """Return setting → its values: those allowed, or where any number is, those of the experiment."""
    values: dict[str, Iterable[object]] = {"variants": (*family.variants, "all"), "baseline": family.variants}
    for axis in family.axes:
        values[f"problem.{axis.name}"] = axis.choices or config.problem.get(axis.name, (axis.default,))
    if family.presets:
        values["problem.preset"] = family.presets
    tunables = [tunable for variant in family.variants.values() for tunable in variant.tunables]
    for name in dict.fromkeys(tunable.name for tunable in tunables):
        allowed = (value for tunable in tunables if tunable.name == name for value in tunable.values)
        values[f"tune.{name}"] = tuple(dict.fromkeys(allowed))
    return values


def _settings(word: str) -> list[str]:
    """Return the settings that begin with a word, or the choices of a group."""
    project = find_project()
    key, equals, value = word.partition("=")
    if not equals:
        return [f"{name}=" for name in dict.fromkeys((*GROUPS, *list_settings())) if name.startswith(word)]
    choices = list_families(project.kernel_folders) if key == "family" else list_choices(project, key)
    return _complete_list(key, value, choices)


def _complete_list(key: str, value: str, choices: Iterable[object]) -> list[str]:
    """Return each list whose last element one of the choices completes."""
    head, comma, last = value.rpartition(",")
    return [f"{key}={head}{comma}{each}" for each in map(str, choices) if each.startswith(last)]


def _print_function(action: str) -> int:
    """Print Hydra's shell function, for this program."""
    sys.argv[:1] = ["cuprof"]
    Composer(find_project(), []).hydra.shell_completion("config", [action])
    return 0
