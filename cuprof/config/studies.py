"""Which experiments the settings choose.

An experiment that stands for several (`studies: [a, b]` in its file) becomes experiment=a,b; a family that is typed
alone takes the default experiment away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuprof.config.overrides import key_of
from cuprof.core.errors import ConfigError

_CHOICE = re.compile(r"experiment=([\w./-]+(?:,[\w./-]+)*)")
_FAMILY = re.compile(r"\+{0,2}family=([\w-]+)")
_OF_ONE_FAMILY = re.compile(r"family|baseline|(problem|tune)(\..*)?")


def choose_experiments(settings: Sequence[str], folders: Sequence[Path], main: Path | None) -> list[str]:
    """Return the settings with every experiment that stands for several replaced by these, in its order.

    Where a family is typed and no experiment, add `~experiment`: the default experiment is a study of another family,
    whose baseline, axes and tunables would stay composed in.

    Args:
        settings: as typed, `key=value`.
        folders: folders of configuration; an earlier one wins.
        main: the main configuration's file; one that chooses no experiment has none to take away.

    Raises:
        ConfigError: settings of one family (problem axes, tunables, family, baseline) beside an experiment of several,
            a family beside an experiment of another, or a file whose `studies` are not a list of names of single
            experiments.
    """
    keys, chosen = [key_of(setting) for setting in settings], list(settings)
    one_family = next(filter(_OF_ONE_FAMILY.fullmatch, keys), "")
    family = next((match[1] for setting in settings if (match := _FAMILY.fullmatch(setting))), "")
    for place, setting in enumerate(settings):
        if match := _CHOICE.fullmatch(setting):
            names = match[1].split(",")
            studies = [study for name in names for study in _expand(name, folders, one_family, family)]
            chosen[place] = setting if studies == names else f"experiment={','.join(dict.fromkeys(studies))}"
    if "family" in keys and "experiment" not in keys:
        defaults = _read_mapping(main).get("defaults")
        if isinstance(defaults, list) and any(isinstance(each, dict) and "experiment" in each for each in defaults):
            chosen.append("~experiment")
    return chosen


def _expand(name: str, folders: Sequence[Path], one_family: str, family: str) -> list[str]:
    """Return the experiments that one stands for: itself, or the several of its file.

    Args:
        one_family: a setting beside it that belongs to one family.
        family: the family that is typed beside it.
    """
    path = _find(name, folders)
    content = _read_mapping(path)
    if "studies" not in content:
        if family and (own := content.get("family", family)) != family:
            raise ConfigError(
                f"experiment={name} is a study of family {own}, not of {family}; leave one of the two out"
            )
        return [name]
    studies = content.pop("studies")
    if not isinstance(studies, list) or not studies or not all(isinstance(each, str) for each in studies):
        raise ConfigError(f"{path}: studies must be a list of experiments' names, such as [reduction, cuconv]")
    if content:
        other = next(iter(content))
        raise ConfigError(f"{path} has studies and {other}; an experiment that stands for several has nothing else")
    for study in studies:
        if "studies" in _read_mapping(_find(study, folders)):
            raise ConfigError(f"{path}: {study!r} stands for several experiments itself; name single ones")
    if len(studies) > 1 and one_family:
        raise ConfigError(
            f"{one_family} is of one family, and experiment={name} runs {', '.join(studies)}; name one of them, "
            f"such as experiment={studies[0]}, or leave {one_family} out"
        )
    return studies


def _read_mapping(path: Path | None) -> dict[str, Any]:
    """Return what a file of configuration holds; nothing where there is none, or it holds no mapping."""
    import yaml

    try:
        raw = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if path else None
    except (yaml.YAMLError, UnicodeDecodeError):
        return {}  # Hydra reports it
    return raw if isinstance(raw, dict) else {}


def _find(name: str, folders: Sequence[Path]) -> Path | None:
    paths = (folder / "experiment" / f"{name}.yaml" for folder in folders)
    return next((path for path in paths if path.is_file()), None)
