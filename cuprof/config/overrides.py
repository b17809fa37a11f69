"""Read the command line's settings: a list on an axis stays in one job, a list on any other setting makes jobs.

An experiment that stands for several (`studies: [a, b]` in its file) becomes experiment=a,b first; a family that is
typed alone takes the default experiment away.

Hydra's own parser reads each setting, so its whole grammar works: `problem.n=2**20,2**24`, `range(10,20)`,
`choice(…)`, `sort(…)`, `glob(…)`, quotes. Arithmetic stays text here. Axes go past Hydra: their values are put into
what it composes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.core.errors import ConfigError
from cuprof.core.text import hide_passwords

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

GROUPS = ("check", "device", "experiment", "launch", "measure", "ncu", "report", "search", "store")
"""The configuration groups of conf/."""
_AXIS = re.compile(r"variants|device\.cuda|(?:problem|tune)\.[^.=@]+")
"""Settings that take a list within one job; several GPUs are no axis, but share a job as well."""
_AXIS_PART = re.compile(r"(variants|(?:problem|tune)\.[^.=@]+)\.")
_CHOICE = re.compile(r"experiment=([\w./-]+(?:,[\w./-]+)*)")
_FAMILY = re.compile(r"\+{0,2}family=([\w-]+)")
_OF_ONE_FAMILY = re.compile(r"family|baseline|(problem|tune)(\..*)?")
_COMMA = re.compile(r",(?![^(]*\))")
"""A comma outside of parentheses."""
_SETTING = re.compile(r"(?P<prefix>\+\+|\+|~)?(?P<key>[^=]+)(?:=(?P<value>.*))?", re.DOTALL)

SOURCES = (".cu", ".cuh", ".cl", ".ptx", ".cubin", ".fatbin", ".c", ".cpp")
"""Endings of files that a user may try to sweep by themselves."""
FAULTS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors other than YAML's own that the text of a file of configuration may raise."""
MOST_VALUES = 10_000
"""Values of one axis; more is a slip, and Hydra takes seconds to compose these."""
MOST_JOBS = 1_000
"""Jobs of one command, which are all composed before the first one runs, in tens of milliseconds each."""


def choose_experiments(settings: Sequence[str], folders: Sequence[Path], main: str = "config") -> list[str]:
    """Return the settings with every experiment that stands for several replaced by these, in its order.

    Where a family is typed and no experiment, add `~experiment`: the default experiment is a study of another family,
    whose baseline, axes and tunables would stay composed in.

    Args:
        folders: folders of configuration; an earlier one wins.
        main: the main configuration's name; one that chooses no experiment has none to take away.

    Raises:
        ConfigError: settings of one family (problem axes, tunables, family, baseline) beside an experiment of several,
            a family beside an experiment of another, or a file whose `studies` are not names of single experiments.
    """
    keys, chosen = [key_of(setting) for setting in settings], list(settings)
    family = next((match[1] for setting in settings if (match := _FAMILY.fullmatch(setting))), "")
    for place, setting in enumerate(settings):
        if match := _CHOICE.fullmatch(setting):
            names = match[1].split(",")
            studies = [study for name in names for study in _expand(name, folders, keys, family)]
            chosen[place] = setting if studies == names else f"experiment={','.join(dict.fromkeys(studies))}"
    if "family" in keys and "experiment" not in keys:
        defaults = _read_mapping(main, folders).get("defaults")
        if isinstance(defaults, list) and any(isinstance(each, dict) and "experiment" in each for each in defaults):
            chosen.append("~experiment")
    return chosen


def _expand(name: str, folders: Sequence[Path], keys: Sequence[str], family: str) -> list[str]:
    """Return the experiments that one stands for, beside settings of these keys: itself, or the several of its file."""
    content = _read_mapping(f"experiment/{name}", folders)
    if (studies := content.get("studies")) is None:
        if family and (own := content.get("family", family)) != family:
            raise ConfigError(
                f"experiment={name} is a study of family {own}, not of {family}; leave one of the two out"
            )
        return [name]
    is_list = isinstance(studies, list) and all(isinstance(each, str) for each in studies)
    names: list[str] = studies if is_list else []
    of_several = [each for each in names if "studies" in _read_mapping(f"experiment/{each}", folders)]
    if not names or of_several or len(content) > 1:
        raise ConfigError(
            f"experiment/{name}.yaml: studies must be a list of single experiments, such as [reduction, cuconv], and "
            "the only setting of its file"
        )
    if len(names) > 1 and (one_family := next(filter(_OF_ONE_FAMILY.fullmatch, keys), "")):
        raise ConfigError(
            f"{one_family} is of one family, and experiment={name} runs {', '.join(names)}; name one of them, "
            f"such as experiment={names[0]}, or leave {one_family} out"
        )
    return names


def _read_mapping(name: str, folders: Sequence[Path]) -> dict[str, Any]:
    """Return what the first file of this name holds; nothing where there is none, or it holds no mapping."""
    import msgspec

    path = next(filter(Path.is_file, (folder / f"{name}.yaml" for folder in folders)), None)
    try:
        raw = msgspec.yaml.decode(path.read_bytes()) if path else None
    except (msgspec.DecodeError, OSError, *FAULTS):
        return {}  # Hydra reports it
    return raw if isinstance(raw, dict) else {}


def read_settings(typed: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Return what Hydra composes, as it was typed; and axis key ("problem.n", "variants") → its values.

    Raises:
        ConfigError: a setting that cannot be read, or an axis given as an interval, a mapping or nothing.
    """
    overrides: list[str] = []
    axes: dict[str, list[Any]] = {}
    for text in typed:
        prefix, key, value = _split("tune.all=all" if text == "tune=all" else text)
        if (prefix, key) == ("+", "ncu.metrics"):
            axes["ncu.extra_metrics"] = _read_axis(text, key, value)
        elif prefix != "~" and _AXIS.fullmatch(key):
            axes[key] = _read_axis(text, key, value)
        else:
            value_read = _parse(text)._value
            if re.split("[/@]", key)[0] in (*GROUPS, "hydra") and not _holds_names(value_read):
                raise ConfigError(f"{text!r}: a list for {key} takes names; write {key}=NAME")
            if not prefix and key.startswith("launch.options."):
                text = f"++{text}"  # a launcher's own options have no file that names them
            if key in GROUPS and isinstance(value_read, bool | int | float):  # as a name, which is looked up
                text = f"{key}='{value}'"
            overrides.append(text)
    return overrides, axes


def split_jobs(overrides: Sequence[str], loader: Any) -> list[list[str]]:
    """Return the overrides of each job: the product of all lists; Hydra's loader knows what a glob chooses."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    read = OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
    own = [str(each.input_line) for each in read if each.is_hydra_override()]
    others = [each for each in read if not each.is_hydra_override()]
    lists = [each for each in others if each.is_sweep_override()]
    if not lists:
        return [[*overrides]]
    lengths = [len(_list_values(str(each.input_line), _iter_values(each), MOST_JOBS)) for each in lists]
    if (count := prod(lengths)) > MOST_JOBS:
        raise ConfigError(f"the lists make {count:,} jobs, and a command has {MOST_JOBS:,} at most; shorten one")
    return [[*own, *job] for job in BasicSweeper.split_arguments(others, max_batch_size=None)[0]]


def key_of(setting: str) -> str:
    """Return a setting's key, "problem.n" of "+problem.n=4"."""
    return setting.lstrip("+~").partition("=")[0]


def quoted(text: str) -> str:
    """Return a text in quotes, as Hydra reads it back."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(text, Quote.single).with_quotes()


def _holds_names(value: Any) -> bool:
    """Return whether every list of a group's choices holds only names, which Hydra does not check."""
    from hydra.core.override_parser.types import ChoiceSweep, QuotedString

    if isinstance(value, ChoiceSweep):
        return all(map(_holds_names, value.list))
    return not isinstance(value, list) or all(isinstance(each, str | QuotedString) for each in value)


def _split(text: str) -> tuple[str, str, str]:
    """Return a setting's prefix ("+", "++", "~" or none), key and value."""
    match = _SETTING.fullmatch(text)
    if match is None or (match["value"] is None and match["prefix"] != "~"):
        if text.endswith(SOURCES):
            raise ConfigError(
                f"{text!r} is a kernel's source; a Python file says how it is launched: "
                f"cuprof.kernel(NAME, source={text!r}, …), see docs/bring-your-kernel.md"
            )
        raise ConfigError(f"{text!r} is not a setting; settings are written key=value, such as experiment=reduction")
    prefix, key = match["prefix"] or "", match["key"]
    if prefix != "~" and key in ("problem", "tune"):
        hint = " or problem.preset=NAME" if key == "problem" else ", or tune=all"
        raise ConfigError(f"{text!r} names no axis; write {key}.NAME=VALUE{hint}")
    if prefix != "~" and (part := _AXIS_PART.match(key)):
        raise ConfigError(f"{text!r}: {part[1]} is an axis and has no parts; write {part[1]}=VALUE")
    return prefix, key, match["value"] or ""


def _read_axis(text: str, key: str, value: str) -> list[Any]:
    from hydra.core.override_parser.types import Glob, QuotedString

    override = _parse(f"{key}={value}", axis=text)
    raw: Any = override._value
    if isinstance(raw, Glob):
        return [*raw.include, *(f"!{pattern}" for pattern in raw.exclude)]
    given = _flatten(_iter_values(override))
    values = [each.text if isinstance(each, QuotedString) else each for each in _list_values(text, given, MOST_VALUES)]
    if not values:
        raise ConfigError(f"{text!r} expands to no values; give at least one")
    if any(each is None or each == "" or isinstance(each, dict) for each in values):
        raise ConfigError(f"{text!r} has an empty value, null or a mapping; an axis takes numbers and names")
    return values


def _list_values(text: str, given: Iterable[Any], most: int) -> list[Any]:
    """Return what a setting expands to; raise `ConfigError` where that is too much, or where its range is none."""
    try:
        values = list(islice(given, most + 1))
    except (ArithmeticError, ValueError):
        fault = "has a range without an end or with a step of 0; write range(start,stop,step)"
        raise ConfigError(f"{text!r} {fault}") from None
    if len(values) > most:
        raise ConfigError(f"{text!r} expands to more than {most:,} values; give range(…) a larger step")
    return values


def _iter_values(override: Override) -> Iterator[Any]:
    yield from override.sweep_iterator() if override.is_sweep_override() else [override._value]


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from _flatten(value) if isinstance(value, list) else [value]


def _quote_odd(value: str) -> str:
    elements = _COMMA.split(value[1:-1] if value.startswith("[") and value.endswith("]") else value)
    return ",".join(f"'{each.strip()}'" if re.search(r"[(!]", each) and "'" not in each else each for each in elements)


def _parse(text: str, axis: str = "") -> Override:
    """Return a setting as Hydra reads it; in an axis, given as it was typed, quote what its grammar lacks: ( and !."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser, refused = OverridesParser.create(), None
    key, _, value = text.partition("=")
    for is_lenient in (False, True) if axis else (False,):
        try:
            override = parser.parse_override(f"{key}={_quote_odd(value)}" if is_lenient else text)
        except HydraException as error:
            refused = refused or error
            continue
        except RecursionError:
            raise ConfigError(f"the value of {key} is nested too deeply; give it fewer brackets") from None
        if override.is_sweep_override() and not override.is_discrete_sweep():
            raise ConfigError(f"{axis or text!r} is an interval; write range(start,stop,step) or a comma list")
        return override
    if value.rstrip().endswith(","):
        raise ConfigError(f"{axis or text!r} ends with a comma; leave it out, or go on without a space")
    # The parser quotes a piece of what it cannot read, which may be a part of a password.
    said = str(refused).strip().partition("\n")[0]
    cause = said if hide_passwords(value) == value else "no value of Hydra's grammar"
    raise ConfigError(f"cannot read {axis or text!r}: {cause}; put quotes around special characters: \"{key}='…'\"")
