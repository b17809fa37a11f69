"""The choice of what to run: bare words, near misses, and the list of what could be chosen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cuprof.cli.output import print_message
from cuprof.config.overrides import GROUPS, key_of, quoted
from cuprof.core.errors import ConfigError, suggest
from cuprof.core.project import Project, bundled, checkout
from cuprof.core.text import quote_path

MEANT = {
    **dict.fromkeys(("quick", "precise", "hot"), "measure={}"),
    **dict.fromkeys(("cpu", "cuda", "opencl"), "device={}"),
    **dict.fromkeys(("gpu", "nvidia"), "device=cuda"),
    **dict.fromkeys(("dry", "list", "preview"), "dry_run=true"),
    **dict.fromkeys(("again", "force", "rerun"), "retry=all"),
    "json": "output=json",
    **dict.fromkeys(("counters", "profile"), "ncu.enabled=true"),
    "variant": "variants={}",
    **dict.fromkeys(("database", "db"), "store.url={}"),
}
"""Words that people try → the setting that they mean, with the word or its value in {}."""
MOST_FILES = 5
CALLS = re.compile(r"cuprof\.compare|tune_kernel")
"""What a file that can be swept calls."""
_PLACES = ("--store", "--config-dir", "-cd")
"""Options with a value that do not choose what runs; others but --multirun show something or name a configuration."""


def find_meant(word: str) -> str:
    """Return the setting that an option or a bare word stands for, such as measure=quick for --quick, or ""."""
    key, equals, value = word.lstrip("-").replace("-", "_").partition("=")
    if key in MEANT:
        return MEANT[key].format(value if equals else "…" if MEANT[key].startswith(("variants", "store")) else key)
    return f"{key}={value or '…'}" if key in GROUPS else ""


def name_setting(word: str, project: Project, *, is_stored: bool) -> str:
    """Return a setting; a word by itself stands for a Python file, a definition, a family or else an experiment.

    Args:
        is_stored: it may also be a family that is only in the database.

    Raises:
        ConfigError: there is no such name; the message names the nearest.
    """
    from cuprof.families.origin import list_families

    if "=" in word:
        return word
    if word.endswith(".py"):
        return f"family={quoted(word)}"
    if word.endswith(".json") or Path(word).is_dir():
        return f"family={quoted(str(Path(word).absolute()))}"
    if not word.replace("-", "_").isidentifier():
        return word
    families, experiments = list_families(project.folders("kernels")), list_choices(project, "experiment")
    if word in families or word in experiments:
        return f"{'family' if word in families else 'experiment'}={word}"
    meant = find_meant(word)
    if is_stored and not meant:
        return f"family={word}"
    hint = f"did you mean {meant}?" if meant else suggest(word, {*families, *experiments})
    raise ConfigError(f"{word!r} is not a setting (NAME=VALUE), a family or an experiment: {hint}")


def list_choices(project: Project, group: str) -> dict[str, Path]:
    """Return name → file of every choice of a group of the configuration, the project's own first."""
    found: dict[str, Path] = {}
    for folder in project.folders("conf"):
        for file in sorted((folder / group).rglob("*.yaml")):
            if not file.name.startswith("_"):
                found.setdefault(file.relative_to(folder / group).with_suffix("").as_posix(), file)
    return found


def is_chosen(argv: Sequence[str], project: Project) -> bool:
    """Return whether a command line, the project's own configuration or its place says what to run.

    In a checkout of cuprof its default experiment is meant; elsewhere it would be somebody else's kernels.
    """
    own = (folder for folder in project.folders("conf") if folder != bundled("conf"))
    is_own = any((folder / "config.yaml").is_file() for folder in own)
    return project.root == checkout() or is_own or is_typed(argv)


def is_typed(argv: Sequence[str]) -> bool:
    """Return whether a command line itself says what to run, or has an option that shows something."""
    words = [word for word, option in zip(argv, ["", *argv], strict=False) if option not in _PLACES]
    return any(
        word.partition("=")[0] not in (*_PLACES, "--multirun", "-m", "--")
        if word.startswith("-")
        else "=" not in word or key_of(word) in ("experiment", "family")
        for word in words
    )


def tell_choice(command: str, project: Project, families: Sequence[str] = ()) -> int:
    """Say on the standard error what a command could take here, and return the exit code of bad input.

    Where it takes families, these stand in place of experiments and the project's own families.
    """
    from cuprof.families.origin import list_families

    print_message(f"error: name what cuprof {command} is to {'check' if families else 'run'}")
    own = [folder for folder in project.folders("kernels") if folder.is_relative_to(project.root)]
    files = filter(Path.is_file, sorted(Path.cwd().glob("*.py")))
    scripts = (file for file in files if CALLS.search(file.read_text(encoding="utf-8", errors="replace")))
    found = [(quote_path(file.name), "a file here") for file in islice(scripts, MOST_FILES)]
    found += [(name, "a family") for name in families]
    if not families:
        ours = ((name, "a family of this project") for name in list_families(own))
        found += ours if own else [("FILE.py", "a file that calls cuprof.compare, or Kernel Tuner's tune_kernel")]
        for name, file in list_choices(project, "experiment").items():
            is_own = file.is_relative_to(project.root)
            found.append((f"experiment={name}", "a study of this project" if is_own else "comes with cuprof"))
    width = max(len(word) for word, _ in found)
    for word, what in found:
        print_message(f"  cuprof {command} {word:{width}}  {what}")
    if not own:
        print_message("  cuprof init DIR  makes a project of your own with an example")
    return ConfigError.exit_code
