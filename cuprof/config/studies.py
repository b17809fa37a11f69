"""Which experiments the settings choose: one that stands for several (`studies: [a, b]` in its file) becomes
experiment=a,b, and a family that is typed alone takes the default experiment away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuprof.core.errors import ConfigError

_CHOICE = re.compile(r"^experiment=(?P<names>[\w./-]+(?:,[\w./-]+)*)$")
_FAMILY = re.compile(r"^\+{0,2}family=(?P<name>[\w-]+)$")
_KEY = re.compile(r"^[+~]*(?P<key>[^=]*)")
_OF_ONE_FAMILY = re.compile(r"^[+~]*(?P<key>family|baseline|(?:problem|tune)(?:\.[^=]+)?)(?:=|$)")


def expand_studies(settings: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return the settings with every experiment that stands for several replaced by these, in its order.

    Args:
        settings: as typed, `key=value`.
        folders: folders of configuration; an earlier one wins.

    Raises:
        ConfigError: settings of one family (problem axes, tunables, family, baseline) beside an experiment of several,
            a family beside an experiment of another, or a file whose `studies` are no list of names of single
            experiments.
    """
    expanded = []
    for setting in settings:
        match = _CHOICE.match(setting)
        names = match["names"].split(",") if match else []
        found = {name: _read_studies(name, folders) for name in names}
        for name, studies in found.items():
            if studies:
                _check_settings(name, studies, settings)
            else:
                _check_family(name, folders, settings)
        studies = [study for name in names for study in found[name] or [name]]
        expanded.append(f"experiment={','.join(dict.fromkeys(studies))}" if any(found.values()) else setting)
    return expanded


def leave_default_experiment(settings: Sequence[str], main: Path | None) -> list[str]:
    """Return the settings with `~experiment` where a family is typed and no experiment.

    The default experiment is a study of another family, whose baseline, axes and tunables would stay composed in.

    Args:
        settings: as typed, `key=value`.
        main: the main configuration's file; one that chooses no experiment has none to take away.
    """
    keys = {match["key"] for setting in settings if (match := _KEY.match(setting))}
    if "family" not in keys or "experiment" in keys or main is None:
        return list(settings)
    defaults = _read_mapping(main).get("defaults")
    chosen = isinstance(defaults, list) and any(isinstance(each, dict) and "experiment" in each for each in defaults)
    return [*settings, "~experiment"] if chosen else list(settings)


def _check_settings(name: str, studies: Sequence[str], settings: Sequence[str]) -> None:
    for setting in settings:
        if len(studies) > 1 and (match := _OF_ONE_FAMILY.match(setting)):
            raise ConfigError(
                f"{match['key']} is of one family, and experiment={name} runs {', '.join(studies)}; name one of them, "
                f"such as experiment={studies[0]}, or leave {match['key']} out"
            )


def _check_family(name: str, folders: Sequence[Path], settings: Sequence[str]) -> None:
    typed = next((match["name"] for setting in settings if (match := _FAMILY.match(setting))), None)
    path = _find(name, folders)
    if typed is None or path is None:
        return
    family = _read_mapping(path).get("family", typed)
    if family != typed:
        raise ConfigError(f"experiment={name} is a study of family {family}, not of {typed}; leave one of the two out")


def _read_studies(name: str, folders: Sequence[Path]) -> list[str]:
    """Return the experiments that this one stands for; none for an ordinary or unknown one, which Hydra tells of."""
    path = _find(name, folders)
    raw = _read_mapping(path, "studies") if path else {}
    if "studies" not in raw:
        return []
    studies = raw["studies"]
    if not isinstance(studies, list) or not studies or not all(isinstance(each, str) for each in studies):
        raise ConfigError(f"{path}: studies must be a list of experiments' names, such as [reduction, cuconv]")
    for key in raw.keys() - {"studies"}:
        raise ConfigError(f"{path} holds studies and {key}; an experiment that stands for several holds nothing else")
    for study in studies:
        if study == name or _read_studies(study, folders):
            raise ConfigError(f"{path}: {study!r} stands for several experiments itself; name single ones")
    return studies


def _read_mapping(path: Path, word: str = "") -> dict[str, Any]:
    """Return what a file of configuration holds; nothing where it holds no mapping, or not the word.

    Parsing every experiment's file for the sake of a few costs milliseconds, so the word is looked for first.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}") from None
    if word not in text:
        return {}
    import yaml

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}  # Hydra tells of it
    return raw if isinstance(raw, dict) else {}


def _find(name: str, folders: Sequence[Path]) -> Path | None:
    paths = (folder / "experiment" / f"{name}.yaml" for folder in folders)
    return next((path for path in paths if path.is_file()), None)
