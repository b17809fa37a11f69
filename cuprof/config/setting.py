"""Read one setting: convert a value to the type that its field has, or say in one line what it must be."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Mapping
from enum import EnumType
from functools import cache
from typing import Annotated, Any, Literal, Union

import msgspec

from cuprof.core.errors import ConfigError, UnknownNameError

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


@cache
def list_kinds(section: type) -> Mapping[str, Any]:
    """Return field → its type, with msgspec's bounds, for a dataclass of settings."""
    return typing.get_type_hints(section, include_extras=True)


def read_fields(section: Any, prefix: str, names: Iterable[str]) -> None:
    """Convert the fields of a frozen dataclass in place; its `__post_init__` calls this.

    Raises:
        ConfigError: a value of the wrong type or out of range.
        UnknownNameError: a word that is not among the choices.
    """
    kinds: Mapping[str, Any] = list_kinds(section.__class__)
    for name in names:
        object.__setattr__(section, name, read_setting(prefix + name, kinds[name], getattr(section, name)))


def read_setting(key: str, kind: Any, value: Any) -> Any:
    """Return a value as the type that its setting has.

    One value stands for a tuple of one, "auto" and null for no choice, a number for its text; a list of one for the
    one, since stored sweeps have some.

    Args:
        key: the setting's name, for messages.
        kind: its type: bool, int, float, str, an enum, Literal, Annotated with bounds, a tuple of such, or one or None.
        value: plain data.
    """
    if typing.get_origin(kind) in (Union, types.UnionType):
        return None if value in (None, "auto") else read_setting(key, typing.get_args(kind)[0], value)
    values = list(value) if isinstance(value, list | tuple) else [value]
    if typing.get_origin(kind) is tuple:
        return tuple(read_setting(key, typing.get_args(kind)[0], each) for each in values)
    if len(values) != 1:
        listed = ",".join(map(str, values))
        raise ConfigError(f"{key} is {values!r}; it takes one value, and {key}={listed} runs a job with each")
    return _convert(key, kind, values[0])


def check_choice(key: str, words: Iterable[str], choices: Iterable[Any]) -> None:
    """Raise `UnknownNameError` for the first word that is not a choice."""
    known = [*choices]
    for word in words:
        if word not in known:
            raise UnknownNameError(f"value of {key}", word, [str(choice) or "(empty)" for choice in known])


def _convert(key: str, kind: Any, value: Any) -> Any:
    plain = _plain_type(kind)
    if plain is str and not isinstance(value, bool):
        value = "" if value is None else str(value) if isinstance(value, int | float) else value
    if plain is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if plain is float and type(value) is int:
        value = float(value)
    try:
        if isinstance(value, float) and not math.isfinite(value):  # NaN passes any bound
            raise msgspec.ValidationError
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    if type(value) is not plain:
        raise ConfigError(f"{key} is {value!r}; it must be {KINDS[plain]}")
    if plain is str:
        choices: Iterable[Any] = kind if isinstance(kind, EnumType) else typing.get_args(kind)
        check_choice(key, [str(value)], choices)
    bounds = typing.get_args(kind)[1]
    raise ConfigError(f"{key} is {value}; it must be from {_show(bounds.ge)} to {_show(bounds.le)}")


def _plain_type(kind: Any) -> type:
    if typing.get_origin(kind) is Literal or isinstance(kind, EnumType):
        return str
    plain: type = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    return plain


def _show(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
