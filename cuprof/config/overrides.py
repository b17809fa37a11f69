"""Tell axes from settings on the command line: a list on an axis stays in one job, any other list makes jobs.

Hydra's own parser reads each override, so its whole grammar works: `problem.n=2**20,2**24`, `range(10,20)`,
`choice(…)`, `sort(…)`, `glob(…)`, quotes. Arithmetic stays text here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from cuprof.core.errors import ConfigError
from cuprof.core.text import hide_passwords

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

GROUPS = ("check", "device", "experiment", "measure", "ncu", "report", "search", "store")
"""The configuration groups of conf/."""
_AXIS = re.compile(r"^(?:variants|device\.cuda|(?:problem|tune)\.[^.=@]+)$")
"""What takes a list within one job; several GPUs are no axis, but share a job as well."""
_AXIS_PART = re.compile(r"^(?P<axis>variants|(?:problem|tune)\.[^.=@]+)\.")
_KEY = re.compile(r"^(?P<prefix>\+\+|\+|~)?(?P<key>[^=]+)(?:=(?P<value>.*))?$", re.DOTALL)

SOURCES = (".cu", ".cuh", ".cl", ".ptx", ".cubin", ".fatbin", ".c", ".cpp")
"""Endings of files that somebody may take for what is swept."""
MOST_VALUES = 100_000
"""Values of one axis; more is a slip, and would fill the memory before anything can say so."""


@dataclass(frozen=True)
class Arguments:
    """Hold a command line's settings as Hydra is given them.

    Attributes:
        overrides: every axis as one list value, all else as it was typed.
        given: the axis keys that were typed ("problem.n", "problem.preset", "variants").
        jobs: how many jobs the remaining lists make; 1 when there is none; None when only the sweeper can tell.
    """

    overrides: tuple[str, ...]
    given: frozenset[str]
    jobs: int | None

    @property
    def multirun(self) -> bool:
        """Return whether a list on a key that is no axis asks for several jobs."""
        return self.jobs != 1


def split_axes(overrides: Sequence[str]) -> Arguments:
    """Turn lists on axes (`variants`, `problem.*`, `tune.*`) into list values; count the jobs that other lists make.

    Raises:
        ConfigError: an override that cannot be read, or an axis given as an interval, a mapping or nothing.
    """
    written: list[str] = []
    given: set[str] = set()
    jobs: int | None = 1
    for typed in overrides:
        text = "tune.all=all" if typed == "tune=all" else typed
        match = _KEY.match(text)
        if match is None or (match["value"] is None and match["prefix"] != "~"):
            if text.endswith(SOURCES):
                raise ConfigError(
                    f"{text!r} is a kernel's source; a Python file says how it is launched: "
                    f"cuprof.kernel(NAME, source={text!r}, …), see docs/bring-your-kernel.md"
                )
            raise ConfigError(
                f"{text!r} is not a setting; settings are written key=value, such as experiment=reduction"
            )
        key = match["key"]
        if key in ("problem", "tune") and match["prefix"] != "~":
            hint = " or problem.preset=NAME" if key == "problem" else ", or tune=all"
            raise ConfigError(f"{text!r} names no axis; write {key}.NAME=VALUE{hint}")
        if match["prefix"] != "~" and (part := _AXIS_PART.match(key)):
            raise ConfigError(f"{text!r}: {part['axis']} is an axis and has no parts; write {part['axis']}=VALUE")
        if match["prefix"] != "~" and _AXIS.match(key):
            given.add(key)
            written.append(f"++{key}=[{','.join(map(write_value, _read_axis(text, key, match['value'])))}]")
        elif match["prefix"] == "+" and key == "ncu.metrics":
            values = _read_axis(text, key, match["value"])
            written.append(f"++ncu.extra_metrics=[{','.join(map(write_value, values))}]")
        else:
            parsed = _parse(text)
            if key in GROUPS and isinstance(parsed._value, bool | int | float):  # as a name, which is looked up
                text = f"{key}='{match['value']}'"
            written.append(text)
            if parsed.is_sweep_override() and not parsed.is_hydra_override():
                count = _count(parsed)
                jobs = jobs * count if jobs is not None and count is not None else None
    return Arguments(tuple(written), frozenset(given), jobs)


def _read_axis(text: str, key: str, value: str) -> list[Any]:
    from hydra.core.override_parser.types import Glob, IntervalSweep

    parsed = _parse(f"{key}={value}", typed=text, lenient=True)
    raw: Any = parsed._value
    if isinstance(raw, IntervalSweep):
        raise ConfigError(f"{text!r}: an axis takes single values; write range(start,stop,step) or a comma list")
    values: list[Any]
    if isinstance(raw, Glob):
        values = [*raw.include, *(f"!{pattern}" for pattern in raw.exclude)]
    elif parsed.is_sweep_override():
        values = list(islice(_flatten(parsed.sweep_iterator()), MOST_VALUES + 1))
    else:
        values = list(_flatten([raw]))
    if not values:
        raise ConfigError(f"{text!r} leaves no value; give at least one")
    if len(values) > MOST_VALUES:
        raise ConfigError(f"{text!r} holds more than {MOST_VALUES:,} values; give range(…) a larger step")
    for element in values:
        if element is None or element == "" or isinstance(element, dict):
            raise ConfigError(f"{text!r} holds {write_value(element) or 'nothing'}; an axis takes numbers and names")
    return values


def _flatten(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flatten(value)
        else:
            yield value


def write_value(value: Any) -> str:
    """Return an element as Hydra reads it back to the same value: names and arithmetic in quotes."""
    from hydra.core.override_parser.types import Override, QuotedString

    if isinstance(value, QuotedString):
        return value.with_quotes()
    if isinstance(value, str):
        # Inside quotes a backslash matters only ahead of a quote.
        return "'" + re.sub(r"(\\*)'", r"\1\1\\'", re.sub(r"(\\+)$", r"\1\1", value)) + "'"
    return Override._get_value_element_as_str(value)


def _count(parsed: Override) -> int | None:
    from hydra.core.override_parser.types import Glob

    if isinstance(parsed._value, Glob) or not parsed.is_discrete_sweep():
        return None
    return sum(1 for _ in islice(parsed.sweep_iterator(), MOST_VALUES))


def _parse(text: str, typed: str = "", lenient: bool = False) -> Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    try:
        return parser.parse_override(text)
    except HydraException as error:
        key, _, value = text.partition("=")
        if lenient:
            # Parentheses and ! are beyond Hydra's grammar unless quoted: quote the elements that have any.
            quoted = ",".join(
                f"'{part.strip()}'" if re.search(r"[(!]", part) and "'" not in part else part
                for part in _split_commas(value[1:-1] if value.startswith("[") and value.endswith("]") else value)
            )
            if quoted != value:
                try:
                    return parser.parse_override(f"{key}={quoted}")
                except HydraException:
                    pass
        # The parser quotes a piece of what it cannot read, which may be one of a password's.
        first = str(error).strip().partition("\n")[0]
        cause = first if hide_passwords(value) == value else "no value of Hydra's grammar"
        raise ConfigError(
            f"cannot read {typed or text!r}: {cause}; put quotes around special characters: \"{key}='…'\""
        ) from None


def _split_commas(value: str) -> list[str]:
    parts, depth = [""], 0
    for character in value:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
