"""From what Hydra composes to a `SweepConfig`, with every key checked; the settings check their values themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from cuprof.config.model import SweepConfig
from cuprof.config.setting import list_kinds
from cuprof.core.errors import ConfigError, UnknownNameError

_RECORDED = ("experiment", "presets", "optional", "command_line", "composed", "purpose")
"""Fields of SweepConfig that no key of the same name sets."""


def build_config(
    composed: Mapping[str, Any], *, experiment: str, given: Collection[str] = (), command_line: str = ""
) -> SweepConfig:
    """Return the composed configuration as a `SweepConfig`.

    Args:
        composed: plain data, interpolations resolved.
        given: axis keys typed on the command line. A problem axis typed there replaces the presets.

    Raises:
        ConfigError: a value of the wrong type or out of range, or an experiment's file without its package line.
        UnknownNameError: a key that no setting has.
    """
    kinds = list_kinds(SweepConfig)
    if isinstance(composed.get("experiment"), Mapping):  # where Hydra puts a file of experiment/ by default
        raise ConfigError(lacks_package(experiment))
    if "experiment" in composed:
        raise ConfigError("experiment is set on the command line only; remove it from the file")
    if odd := [key for key in composed if key not in kinds or key in _RECORDED]:
        raise UnknownNameError("setting", str(odd[0]), list_settings())
    values = {key: _read(key, kinds[key], value) for key, value in composed.items()}
    problem, tune = (dict(values.get(name, {})) for name in ("problem", "tune"))
    presets = tuple(map(str, problem.pop("preset", ())))
    if "problem.preset" not in given and any(key.startswith("problem.") for key in given):
        presets = ()
    return SweepConfig(
        **{"family": "", **values, "problem": problem, "tune": tune},
        experiment=experiment,
        presets=presets,
        optional=frozenset(name for name in tune if f"tune.{name}" not in given),
        command_line=command_line,
        composed=dict(composed),
    )


def list_settings() -> list[str]:
    """Return every setting's dotted key."""
    keys, kinds = list[str](), list_kinds(SweepConfig)
    for name in kinds:
        if dataclasses.is_dataclass(kinds[name]):
            keys += [f"{name}.{part}" for part in list_kinds(kinds[name])]
        elif name not in _RECORDED:
            keys.append(name)
    return [*keys, "problem.preset", "experiment"]


def lacks_package(experiment: str) -> str:
    """Return the message for an experiment's file whose settings are not at the top of the configuration."""
    return f"experiment/{experiment}.yaml lacks its first line '# @package _global_'"


def _read(name: str, kind: Any, values: Any) -> Any:
    """Return a group of settings, or axis → values, with every part checked; a setting by itself as it is."""
    is_group = dataclasses.is_dataclass(kind)
    if not is_group and name not in ("problem", "tune"):
        return values
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name} is {values!r}; set its parts, such as {name}.NAME=VALUE")
    if is_group:
        if odd := [key for key in values if key not in list_kinds(kind)]:
            raise UnknownNameError("setting", f"{name}.{odd[0]}", [f"{name}.{each}" for each in list_kinds(kind)])
        return kind(**values)
    found = {str(key): tuple(value) if isinstance(value, list) else (value,) for key, value in values.items()}
    for key, given in found.items():
        if not given or not all(isinstance(value, str | int | float) for value in given):
            raise ConfigError(f"{name}.{key} is {values[key]!r}; give a number, a text, or a list of them")
    return found
