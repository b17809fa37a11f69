"""Which experiments the settings choose.

An experiment that stands for several (`studies: [a, b]` in its file) becomes experiment=a,b; a family that is typed
alone takes the default experiment away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    chosen = []
    for setting in settings:
        if match := _CHOICE.fullmatch(setting):
            names = match[1].split(",")
            studies = [study for name in names for study in _expand(name, folders, settings)]
            setting = setting if studies == names else f"experiment={','.join(dict.fromkeys(studies))}"
        chosen.append(setting)
    keys = {_key(setting) for setting in settings}
    if "family" in keys and "experiment" not in keys and main is not None:
        defaults = _read_mapping(main).get("defaults")
        if isinstance(defaults, list) and any(isinstance(each, dict) and "experiment" in each for each in defaults):
            chosen.append("~experiment")
    return chosen


def _key(setting: str) -> str:
    return setting.lstrip("+~").partition("=")[0]


def _expand(name: str, folders: Sequence[Path], settings: Sequence[str]) -> list[str]:
    """Return the experiments that one stands for: itself, or the several of its file."""
    path = _find(name, folders)
    studies = _read_studies(path, folders) if path else []
    one_family = next((key for key in map(_key, settings) if _OF_ONE_FAMILY.fullmatch(key)), None)
    if len(studies) > 1 and one_family:
        raise ConfigError(
            f"{one_family} is of one family, and experiment={name} runs {', '.join(studies)}; name one of them, "
            f"such as experiment={studies[0]}, or leave {one_family} out"
        )
    typed = next((match[1] for setting in settings if (match := _FAMILY.fullmatch(setting))), None)
    if path and typed and not studies and (family := _read_mapping(path).get("family", typed)) != typed:
        raise ConfigError(f"experiment={name} is a study of family {family}, not of {typed}; leave one of the two out")
    return studies or [name]


def _read_studies(path: Path, folders: Sequence[Path]) -> list[str]:
    """Return the experiments that a file stands for; none for an ordinary one."""
    raw = _read_mapping(path)
    studies = raw.pop("studies", None)
    if studies is None:
        return []
    if not isinstance(studies, list) or not studies or not all(isinstance(each, str) for each in studies):
        raise ConfigError(f"{path}: studies must be a list of experiments' names, such as [reduction, cuconv]")
    if raw:
        other = next(iter(raw))
        raise ConfigError(f"{path} has studies and {other}; an experiment that stands for several has nothing else")
    for study in studies:
        if (own := _find(study, folders)) and "studies" in _read_mapping(own):
            raise ConfigError(f"{path}: {study!r} stands for several experiments itself; name single ones")
    return studies


def _read_mapping(path: Path) -> dict[str, Any]:
    """Return what a file of configuration holds; nothing where it holds no mapping."""
    import yaml

    try:
        raw = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError):
        return {}  # Hydra reports it
    return raw if isinstance(raw, dict) else {}


def _find(name: str, folders: Sequence[Path]) -> Path | None:
    paths = (folder / "experiment" / f"{name}.yaml" for folder in folders)
    return next((path for path in paths if path.is_file()), None)
