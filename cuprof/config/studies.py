"""Experiments that stand for several: a file of experiment/ that holds `studies: [a, b]` becomes experiment=a,b."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cuprof.errors import ConfigError

_CHOICE = re.compile(r"^experiment=(?P<names>[\w./-]+(?:,[\w./-]+)*)$")
_OF_ONE_FAMILY = re.compile(r"^[+~]*(?P<key>family|baseline|(?:problem|tune)(?:\.[^=]+)?)(?:=|$)")


def expand_studies(settings: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return the settings with every experiment that stands for several replaced by these, in its order.

    Args:
        settings: as typed, `key=value`.
        folders: folders of configuration; an earlier one wins.

    Raises:
        ConfigError: settings of one family (problem axes, tunables, family, baseline) beside an experiment of several,
            or a file whose `studies` are no list of names of single experiments.
    """
    expanded = []
    for setting in settings:
        match = _CHOICE.match(setting)
        names = match["names"].split(",") if match else []
        found = {name: _read_studies(name, folders) for name in names}
        for name, studies in found.items():
            if studies:
                _check_settings(name, studies, settings)
        studies = [study for name in names for study in found[name] or [name]]
        expanded.append(f"experiment={','.join(dict.fromkeys(studies))}" if any(found.values()) else setting)
    return expanded


def _check_settings(name: str, studies: Sequence[str], settings: Sequence[str]) -> None:
    for setting in settings:
        if len(studies) > 1 and (match := _OF_ONE_FAMILY.match(setting)):
            raise ConfigError(
                f"{match['key']} is of one family, and experiment={name} runs {', '.join(studies)}; name one of them, "
                f"such as experiment={studies[0]}, or leave {match['key']} out"
            )


def _read_studies(name: str, folders: Sequence[Path]) -> list[str]:
    """Return the experiments that this one stands for; none for an ordinary or unknown one, which Hydra tells of."""
    path = _find(name, folders)
    if path is None or "studies" not in (text := path.read_text(encoding="utf-8")):
        return []
    import yaml

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError:
        return []
    if not isinstance(raw, dict) or "studies" not in raw:
        return []
    studies = raw["studies"]
    if not isinstance(studies, list) or not studies or not all(isinstance(each, str) for each in studies):
        raise ConfigError(f"{path}: studies must be a list of experiments' names, such as [reduction, cuconv]")
    for key in _others(raw):
        raise ConfigError(f"{path} holds studies and {key}; an experiment that stands for several holds nothing else")
    for study in studies:
        if study == name or _read_studies(study, folders):
            raise ConfigError(f"{path}: {study!r} stands for several experiments itself; name single ones")
    return studies


def _others(raw: dict[str, object]) -> Iterator[str]:
    return (str(key) for key in raw if key != "studies")


def _find(name: str, folders: Sequence[Path]) -> Path | None:
    paths = (folder / "experiment" / f"{name}.yaml" for folder in folders)
    return next((path for path in paths if path.is_file()), None)
