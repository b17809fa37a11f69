"""Shell completion: commands, options, settings, and what a family decides.

`eval "$(cuprof -sc install=bash)"` installs Hydra's shell function for `cuprof`; the shell then asks
`cuprof -sc query=bash` with the line in `COMP_LINE`.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import SUPPRESS
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cuprof.cli.choice import list_choices
from cuprof.cli.main import COMMANDS
from cuprof.config.build import list_settings
from cuprof.config.composer import Composer, compose, list_installed
from cuprof.config.overrides import GROUPS
from cuprof.core.errors import CuprofError, UsageError
from cuprof.core.project import find_project
from cuprof.families.origin import list_families
from cuprof.interop.origins import find_origin
from cuprof.results.queries import list_queries

_OF_FAMILY = re.compile(r"(?:variants=|baseline=|problem\.|tune\.)")
_CHOICE = re.compile(r"(?:experiment|family)=.+")


def main(argv: Sequence[str]) -> None:
    """Print a shell's completion function, or the words that complete `COMP_LINE`."""
    action = argv[1] if len(argv) > 1 else ""
    if not re.fullmatch(r"(install|uninstall|query)=(bash|zsh|fish)", action):
        raise UsageError('completion takes install=SHELL; write eval "$(cuprof -sc install=bash)" (or zsh, fish)')
    if not action.startswith("query="):
        sys.argv[:1] = ["cuprof"]  # the program that Hydra's function is for
        Composer(find_project(), []).hydra.shell_completion("config", [action])
        return
    command, space, arguments = os.environ.get("COMP_LINE", "").partition(" ")[2].lstrip().partition(" ")
    *before, word = arguments.split(" ")
    if not space:
        found = [name for name in COMMANDS if name.startswith(command)]
    elif command in COMMANDS and COMMANDS[command].is_hydra:
        found = _complete(word, _of_family(before) if _OF_FAMILY.match(word) else _settings(word.partition("=")[0]))
    else:
        found = [name for name in _words(command) if name.startswith(word)]
    print(("\n" if action.endswith("fish") else " ").join(found))


def _words(command: str) -> Iterator[str]:
    """Yield what may follow a command that is no Hydra application."""
    if command == "query":
        yield from list_queries()
    if command in ("judge", "check", "best", "portfolio"):
        yield from list_families(find_project().folders("kernels"))
    parser = COMMANDS[command].parser if command in COMMANDS else None
    for action in parser._actions if parser else ():
        if action.help != SUPPRESS:
            options = [flag for flag in action.option_strings if flag.startswith("--") and flag != "--help"]
            yield from (*(action.choices or ()), *options)


def _of_family(before: Sequence[str]) -> dict[str, Iterable[object]]:
    """Return axis, tunable or variants → values; nothing where no single family is chosen.

    Where any number is allowed, the values are those of the experiment.
    """
    project = find_project()
    try:
        config = compose([text for text in before if _CHOICE.fullmatch(text)], project)
        family = find_origin(config.family, project.folders("kernels")).load()
    except CuprofError:
        return {}
    values: dict[str, Iterable[object]] = {"variants": (*family.variants, "all"), "baseline": family.variants}
    for axis in family.axes:
        values[f"problem.{axis.name}"] = axis.choices or config.problem.get(axis.name, (axis.default,))
    if family.presets:
        values["problem.preset"] = family.presets
    for tunable in (tunable for variant in family.variants.values() for tunable in variant.tunables):
        key = f"tune.{tunable.name}"
        values[key] = tuple(dict.fromkeys((*values.get(key, ()), *tunable.values)))
    return values


def _settings(key: str) -> dict[str, Iterable[object]]:
    """Return setting → values, which one setting alone is given: a group, or the family."""
    project = find_project()
    choices: Iterable[object] = dict.fromkeys((*list_choices(project, key), *list_installed(key)))
    if key == "family":
        choices = list_families(project.folders("kernels"))
    known: dict[str, Iterable[object]] = dict.fromkeys((*GROUPS, *list_settings()), ())
    return known | ({key: choices} if key in known else {})


def _complete(word: str, values: Mapping[str, Iterable[object]]) -> list[str]:
    """Return the settings that begin with a word; or each list whose last element one of the values completes."""
    key, equals, value = word.partition("=")
    if not equals:
        return [f"{name}=" for name in values if name.startswith(word)]
    head, comma, last = value.rpartition(",")
    return [f"{key}={head}{comma}{each}" for each in map(str, values.get(key, ())) if each.startswith(last)]
