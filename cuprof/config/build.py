"""From what Hydra composes to the frozen dataclasses, every key and type checked."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

from cuprof.config.model import SweepConfig
from cuprof.core.errors import ConfigError, UnknownNameError
from cuprof.core.point import Coordinate

_RECORDED = ("experiment", "presets", "optional", "command_line", "composed", "purpose")
"""Fields of SweepConfig that no key of the same name sets."""


def build_config(
    composed: Mapping[str, Any], *, experiment: str, given: Collection[str] = (), command_line: str = ""
) -> SweepConfig:
    """Return the composed configuration as a `SweepConfig`.

    Args:
        composed: plain data, interpolations resolved.
        experiment: the chosen experiment's name.
        given: axis keys typed on the command line. A problem axis typed there replaces the presets.
        command_line: kept for the record.

    Raises:
        ConfigError: a value of the wrong type or out of range, or an experiment's file without its package line.
        UnknownNameError: a key that no setting has.
    """
    hints = typing.get_type_hints(SweepConfig)
    values: dict[str, Any] = {}
    for key, value in composed.items():
        if key == "experiment" and isinstance(value, Mapping):  # where Hydra puts a file of experiment/ by itself
            raise ConfigError(lacks_package(experiment))
        if key not in hints or key in _RECORDED:
            raise UnknownNameError("setting", str(key), list_settings())
        if key in ("problem", "tune"):
            values[key] = _axes(key, value)
        elif dataclasses.is_dataclass(hints[key]):
            values[key] = _section(key, typing.cast(type, hints[key]), value)
        else:
            values[key] = _convert(key, hints[key], value)
    values.setdefault("family", "")
    problem = dict(values.get("problem", {}))
    presets = tuple(map(str, problem.pop("preset", ())))
    if "problem.preset" not in given and any(key.startswith("problem.") for key in given):
        presets = ()
    values["problem"] = problem
    return SweepConfig(
        experiment=experiment,
        presets=presets,
        optional=frozenset(name for name in values.get("tune", {}) if f"tune.{name}" not in given),
        command_line=command_line,
        composed=dict(composed),
        **values,
    )


def list_settings() -> list[str]:
    """Return every setting's dotted key."""
    keys = []
    for name, kind in typing.get_type_hints(SweepConfig).items():
        if dataclasses.is_dataclass(kind):
            keys += [f"{name}.{field.name}" for field in dataclasses.fields(kind)]
        elif name not in _RECORDED:
            keys.append(name)
    return [*keys, "problem.preset", "experiment"]


def lacks_package(experiment: str) -> str:
    """Return what to tell of an experiment's file whose settings are not at the top of the configuration."""
    return f"experiment/{experiment}.yaml lacks its first line '# @package _global_'"


def _section(name: str, section: type, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{name} is {values!r}; set its parts, such as {name}.{dataclasses.fields(section)[0].name}=…"
        )
    hints = typing.get_type_hints(section)
    converted = {}
    for key, value in values.items():
        if key not in hints:
            raise UnknownNameError("setting", f"{name}.{key}", [f"{name}.{known}" for known in hints])
        converted[key] = _convert(f"{name}.{key}", hints[key], value)
    return section(**converted)


def _axes(name: str, values: Any) -> dict[str, tuple[Coordinate, ...]]:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name} is {values!r}; it must map names to values, such as {name}.NAME=VALUE")
    axes = {}
    for key, value in values.items():
        points = tuple(value) if isinstance(value, list) else (value,)
        for point in points:
            if not isinstance(point, (int, float, str)):
                raise ConfigError(f"{name}.{key} holds {point!r}; an axis takes numbers and names")
        if not points:
            raise ConfigError(f"{name}.{key} is empty; give at least one value")
        axes[str(key)] = points
    return axes


def _convert(key: str, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.UnionType):
        if value is None or value == "auto":
            return None
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    if typing.get_origin(kind) is tuple:
        element = typing.get_args(kind)[0]
        listed = value if isinstance(value, list) else [value]
        return tuple(_convert(key, element, part) for part in listed)
    if isinstance(value, list):  # sweeps that are stored have a list of one device
        if len(value) != 1:
            values = ",".join(map(str, value))
            raise ConfigError(f"{key} is {value!r}; it takes one value, and {key}={values} runs a job with each")
        return _convert(key, kind, value[0])
    if kind is str and value is None:
        return ""
    if kind is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise ConfigError(f"{key} is {value!r}; it must be {names[kind]}")
    return value
