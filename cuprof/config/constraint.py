"""What a setting may be: bounds and choices written beside the field, checked when the dataclass is made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from cuprof.core.errors import ConfigError, UnknownNameError


def within(low: float, high: float) -> dict[str, Any]:
    """Return field metadata that allows finite numbers from `low` to `high`, inclusive."""
    return {"low": low, "high": high}


def one_of(*choices: str) -> dict[str, Any]:
    """Return field metadata that allows the given words; for a tuple, each of its elements."""
    return {"choices": choices}


def check_fields(section: Any, name: str) -> None:
    """Raise `ConfigError` in one line for the first field of a dataclass that is outside its bounds or choices.

    Args:
        section: an instance of a dataclass whose fields carry `within` or `one_of` metadata.
        name: what the section is called in the configuration ("measure"); empty at the top.
    """
    for field in dataclasses.fields(section):
        key = f"{name}.{field.name}" if name else field.name
        value = getattr(section, field.name)
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        if "choices" in field.metadata:
            for word in values:
                if word not in field.metadata["choices"]:
                    choices = [str(choice) or "(empty)" for choice in field.metadata["choices"]]
                    raise UnknownNameError(f"value of {key}", str(word), choices)
        elif "low" in field.metadata:
            low, high = field.metadata["low"], field.metadata["high"]
            for number in values:
                if not math.isfinite(number) or not low <= number <= high:
                    raise ConfigError(f"{key} is {number}; it must be from {_bound(low)} to {_bound(high)}")


def _bound(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
