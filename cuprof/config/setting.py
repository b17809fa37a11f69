"""Read one setting: convert a value to the type of its field, or say in one line what it must be."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from cuprof.core.errors import ConfigError, UnknownNameError

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


@cache
def list_kinds(section: type) -> Mapping[str, Any]:
    """Return field → its type, with msgspec's bounds, for a dataclass of settings."""
    return get_type_hints(section, include_extras=True)


class Settings:
    """The settings of one group, converted and checked whenever one is made, also by `dataclasses.replace`."""

    def __post_init__(self) -> None:
        section: Any = type(self)
        group = section.__name__.removesuffix("Config").lower()
        prefix = "" if group == "sweep" else f"{group}."
        for name, kind in list_kinds(section).items():
            kept = Mapping if get_origin(kind) is Mapping else Settings | frozenset
            if not isinstance(value := getattr(self, name), kept):
                object.__setattr__(self, name, read_setting(prefix + name, kind, value))
        self.validate()

    def validate(self) -> None:
        """Raise `ConfigError` where settings that are right by themselves are not so together."""


def read_setting(key: str, kind: Any, value: Any) -> Any:
    """Return a value as the type that its setting has.

    One value stands for a tuple of one, "auto" and null for no choice, a number for its text, and a list of one, as
    in stored sweeps, for its value.

    Args:
        kind: its type: bool, int, float, str, an enum, Literal, Annotated with bounds, a tuple of such, or one or None.

    Raises:
        ConfigError: a value of the wrong type or out of range.
        UnknownNameError: a word that is not among the choices.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value in (None, "auto") else read_setting(key, parts[0], value)
    if origin is Mapping:
        raise ConfigError(f"{key} is {value!r}; write {key}.NAME=VALUE")
    values = list(value) if isinstance(value, list | tuple) else [value]
    if origin is tuple:
        return tuple(read_setting(key, parts[0], each) for each in values)
    if len(values) != 1:
        listed = ",".join(map(str, values))
        raise ConfigError(f"{key} is {values!r}; it takes one value, and {key}={listed} runs a job with each")
    plain = parts[0] if origin is Annotated else kind if origin is not Literal and kind in KINDS else str
    value = _adapt(plain, values[0])
    if not (isinstance(value, float) and math.isnan(value)):  # it would pass any bound
        with suppress(msgspec.ValidationError):
            return msgspec.convert(value, kind)
    if type(value) is not plain:
        raise ConfigError(f"{key} is {value!r}; it must be {KINDS[plain]}")
    if plain is str:
        check_choice(key, [value], parts or kind)
    low = f"from {parts[1].ge}" if parts[1].gt is None else f"above {parts[1].gt}, up"
    raise ConfigError(f"{key} is {value}; it must be {low} to {parts[1].le}")


def check_choice(key: str, words: Iterable[str], choices: Iterable[str]) -> None:
    """Raise `UnknownNameError` for the first word that is not a choice."""
    known = [*choices]
    for word in words:
        if word not in known:
            raise UnknownNameError(f"value of {key}", word, [choice or "(empty)" for choice in known])


def _adapt(plain: type, value: Any) -> Any:
    """Return a number as the kind of number, or as the text, that is asked for; null as the empty text."""
    if plain is str and (value is None or type(value) in (int, float)):
        return "" if value is None else str(value)
    if plain is float and type(value) is int:
        return float(value) if value.bit_length() < sys.float_info.max_exp else math.inf if value > 0 else -math.inf
    return int(value) if plain is int and isinstance(value, float) and value.is_integer() else value
