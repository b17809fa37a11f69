"""Hydra's options in any order among the settings, with one-line errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from cuprof.cli.arguments import CommandParser
from cuprof.cli.choice import find_meant, name_setting
from cuprof.config.build import list_settings
from cuprof.config.overrides import key_of, quoted
from cuprof.core.errors import ConfigError
from cuprof.core.project import find_project
from cuprof.core.text import list_first

INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def make_parser(command: str, description: str = "", examples: str = "") -> CommandParser:
    """Return the parser of a command that takes settings; `description` explains them."""
    parser = _Parser(command, description, f"{_describe_settings()}\n\n{examples}", store=True)
    parser.set_defaults(store=None)
    parser.usage = "%(prog)s [FILE | NAME] [SETTING=VALUE ...] [OPTION ...]"
    forms = parser.add_mutually_exclusive_group()
    told = "show the configuration: of the job, Hydra's own, or all"
    forms.add_argument("--cfg", "-c", metavar="PART", choices=("job", "hydra", "all"), help=told)
    told = f"show where it comes from: {', '.join(INFO)}"
    forms.add_argument("--info", "-i", metavar="WHAT", choices=INFO, nargs="?", const="all", help=told)
    forms.add_argument("--multirun", "-m", action="store_true", help="run lists as jobs")
    parser.add_argument("--package", "-p", metavar="PART", help="with --cfg: only this part")
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="add a folder of configuration")
    parser.add_argument("--config-name", "-cn", metavar="NAME", help="another main configuration")
    parser.add_argument("settings", metavar="SETTING=VALUE", nargs="*", help="see above")
    return parser


def _describe_settings() -> str:
    """Return every setting that belongs to a group, a paragraph each."""
    groups: dict[str, list[str]] = {}
    for group, dot, name in (key.partition(".") for key in list_settings()):
        if dot and group != "problem":
            groups.setdefault(group, []).append(name)
    paragraphs = [
        fill(", ".join(names), 118, initial_indent=f"  {group:9}", subsequent_indent=" " * 11)
        for group, names in groups.items()
    ]
    return "\n".join(["single settings, written GROUP.NAME=VALUE; --cfg job shows what each is set to:", *paragraphs])


def read_arguments(command: str, argv: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return (Hydra's options, settings); settings in a script's own call of `cuprof.compare` come first.

    An option that was given, such as "config_dir" or "multirun", has its value, True for a flag; others are absent.

    Raises:
        UsageError: an option that Hydra does not have, a value that it does not take, or two options that exclude
            each other. (--experimental-rerun needs the pickled configuration of a job, and cuprof's jobs leave none.)
    """
    values = vars(make_parser(command).parse_intermixed_args(argv))
    words = values.pop("settings")
    typed, alone = [word for word in words if "=" in word], [word for word in words if "=" not in word]
    if len(files := [word for word in alone if word.endswith((".py", ".json"))]) > 1:
        raise ConfigError(f"{list_first(files, 3)}: give one file; a file may compare several functions")
    settings = [*_settings_of(alone, set(map(key_of, typed))), *map(_family_setting, words)]
    if url := values.pop("store"):
        settings.append(f"store.url={quoted(url)}")
    if values["package"] and not values["cfg"]:
        raise ConfigError("--package is about what --cfg shows; add --cfg job, or leave --package out")
    return {name: value for name, value in values.items() if value}, settings


def _settings_of(words: Sequence[str], typed: set[str]) -> list[str]:
    """Return the settings in a script's own call, without those overridden on the command line."""
    from cuprof.families.origin import read_settings

    scripts = [Path(word) for word in words if word.endswith(".py") and Path(word).is_file()]
    own = [(key_of(setting), setting) for script in scripts for setting in read_settings(script)]
    return [setting for key, setting in own if not any(f"{key}.".startswith(f"{each}.") for each in typed)]


def _family_setting(word: str) -> str:
    """Return a setting; a word by itself stands for a Python file, a definition, a family or an experiment."""
    if "=" in word:
        return word
    if word.endswith(".py"):
        return f"family={quoted(word)}"
    if word.endswith(".json") or Path(word).is_dir():
        return f"family={quoted(str(Path(word).absolute()))}"
    return name_setting(word, find_project()) if word.replace("-", "_").isidentifier() else word


class _Parser(CommandParser):
    def find_hint(self, option: str) -> str:
        key, equals, value = option.lstrip("-").replace("-", "_").partition("=")
        if meant := find_meant(option) or (f"{key}={value if equals else '…'}" if key in list_settings() else ""):
            return f"settings have no dashes; write {meant}"
        hint = super().find_hint(option) if option.startswith("--") else ""
        return hint if hint.startswith("did you mean") else "settings are written key=value"
