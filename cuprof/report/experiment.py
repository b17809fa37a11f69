"""An experiment's folder: what the study asks, its published numbers, tables and figures (experiments/README.md)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec

from cuprof.core.errors import ConfigError, UsageError, suggest
from cuprof.core.expression import evaluate

STANDARD = "standard"
MOST_VALUES = 100_000
"""Of study.yaml, which has hundreds: nested aliases make billions of a few lines."""
FACT = re.compile(r"variant|device|problem|(problem|tune)\..+")
"""A name that a study can speak of trials with."""
_ARITHMETIC = re.compile(r"[\d(][\d\s()+\-*/.]*")
_LISTS = {"published", "tables", "figures"}
"""Keys of the whole file whose value may be a single part without a list."""
_NAMED = {"rows", "columns", "steps", "libraries", "log"}
"""Keys whose value may be a single name without a list."""
_WORDS = {"title", "question", "family", "baseline", "name", "value", "against", "published", "label"}
"""Keys whose value is text on one line, also where the file has a number."""
_COORDINATES = {"reference_problem", "problems", "where", "rows", "columns"}
"""Keys of mappings whose values may be arithmetic ("2**24")."""


def _check_kind(kind: str, known: tuple[str, ...]) -> None:
    if kind not in known:
        either = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
        raise ValueError(f"kind {kind!r} is unknown; it is {either}")


def _check_facts(*facts: Iterable[str], others: tuple[str, ...] = ()) -> None:
    for fact in chain(*facts):
        if not FACT.fullmatch(fact) and fact not in others:
            allowed = ", ".join(("variant, device, problem, problem.AXIS, tune.NAME", *others))
            raise ValueError(f"fact {fact!r} is unknown; allowed are {allowed}")


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of study.yaml; a ValueError of `__post_init__` is reported with the part's place in the file."""


class PublishedSpec(_Spec, frozen=True):
    """Say how the cells of one CSV are to be read; see experiments/README.md."""

    name: str
    file: str
    rows: dict[str, Any] = {}
    columns: dict[str, dict[str, Any]] = {}
    names: dict[str, dict[str, Any]] = {}
    title: str = ""

    def __post_init__(self) -> None:
        _check_facts(self.rows, *self.columns.values(), self.names, others=("measure", "unit", "kernel"))


class SumSpec(_Spec, frozen=True):
    """Ask for a last row that adds the others up, each as often as `repeats` says, below rows that add up its parts."""

    label: str
    repeats: dict[str, int] = {}
    parts: dict[str, tuple[str, ...]] = {}


class TableSpec(_Spec, frozen=True):
    """Describe one table of a study."""

    title: str = ""
    kind: str = "steps"
    rows: tuple[str, ...] = ("variant",)
    columns: tuple[str, ...] = ("problem",)
    value: str = "time"
    values: dict[str, str] = {}
    against: str = ""
    where: dict[str, Any] = {}
    published: str = ""
    note: str = ""
    sum: SumSpec | None = None
    folded: bool = False

    def __post_init__(self) -> None:
        _check_kind(self.kind, ("steps", "pivot", "values"))
        _check_facts(self.rows, self.columns, self.where)
        if self.kind == "values" and not self.values:
            raise ValueError("a table of kind values needs values: a name and a quantity or counter each")


class FigureSpec(_Spec, frozen=True):
    """Describe one figure of a study."""

    title: str = ""
    kind: str = "lines"
    x: str = "variant"
    y: str = "time"
    value: str = "time"
    series: str = "variant"
    where: dict[str, Any] = {}
    log: tuple[str, ...] | None = None
    roof: bool = False
    published: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        _check_kind(self.kind, ("lines", "bars", "map"))
        _check_facts([self.x, self.series, *([self.y] if self.kind == "map" else [])], self.where)


class Experiment(_Spec, frozen=True):
    """Hold one study's own description; the default one asks nothing and gets the standard page.

    Attributes:
        findings_about: "gpu" where findings.md speaks of GPUs: a page of a sweep without one leaves it out.
        name, findings, folder: the folder's; study.yaml does not set them.
    """

    name: str = ""
    title: str = ""
    question: str = ""
    family: str = ""
    reference_problem: dict[str, Any] = {}
    steps: tuple[str, ...] = ()
    baseline: str = ""
    libraries: tuple[str, ...] = ()
    problems: dict[str, dict[str, Any]] = {}
    published: tuple[PublishedSpec, ...] = ()
    tables: tuple[TableSpec, ...] = (TableSpec(),)
    figures: tuple[FigureSpec | str, ...] = (STANDARD,)
    findings_about: Literal["", "gpu"] = ""
    findings: str = ""
    folder: Path | None = None

    def __post_init__(self) -> None:
        names = [each.name for each in self.published]
        for key, specs in (("tables", self.tables), ("figures", self.figures)):
            for place, each in enumerate(specs):
                if isinstance(each, str):
                    _check_kind(each, (STANDARD,))
                elif each.published and each.published not in names:
                    hint = suggest(each.published, names)
                    raise ValueError(f"{key}[{place}] names published table {each.published!r}: {hint}")

    def problem_name(self, problem: Mapping[str, Any]) -> str:
        """Return the name that `problems:` gives this problem, or the empty text."""
        return next((name for name, known in self.problems.items() if agrees(problem, known)), "")


def agrees(problem: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a problem has all the wanted coordinates."""
    return all(problem.get(axis) == value for axis, value in wanted.items())


def find_experiment(name: str, folders: Iterable[Path]) -> Experiment:
    """Return the experiment of that name; without a folder of its own, one that asks for the standard page.

    Args:
        folders: folders of experiments; an earlier one wins.

    Raises:
        ConfigError: one of its files cannot be read, or study.yaml says something that the schema does not know.
    """
    if name and Path(name).name == name and name not in (".", ".."):
        for folder in folders:
            if (folder / name).is_dir():
                return load_experiment(folder / name)
    return Experiment(name)


def load_experiment(folder: Path) -> Experiment:
    """Read study.yaml and findings.md of one folder; either may be absent.

    Raises:
        ConfigError: one cannot be read, or study.yaml says something that the schema does not know.
    """
    path, text = folder / "study.yaml", ""
    try:
        raw = msgspec.yaml.decode(path.read_bytes()) if path.is_file() else {}
        _check_size(raw)
        if isinstance(raw, dict):
            if own := {"name", "findings", "folder"} & raw.keys():
                raise msgspec.ValidationError(f"no key {min(own)!r}")
            for key in _LISTS & raw.keys():
                raw[key] = [] if raw[key] is None else raw[key] if isinstance(raw[key], list) else [raw[key]]
        study = msgspec.convert(_tidy(raw or {}), Experiment)
        if (path := folder / "findings.md").is_file():
            text = path.read_text(encoding="utf-8")
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_explain(str(error))}; experiments/README.md describes the file") from error
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return msgspec.structs.replace(study, name=folder.name, findings=text, folder=folder)


def _check_size(raw: Any) -> None:
    """Raise ValueError where parsed YAML has too many values, each counted as often as aliases (*NAME) repeat it."""
    left, count = [raw], 0
    while left:
        each = left.pop()
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += len(inside)
        if count > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values; write fewer, or fewer aliases of them")
        left += inside


def _tidy(raw: Any, key: str = "") -> Any:
    """Return parsed YAML with text as keys and each value as its key wants it.

    A key without a value is as good as left out, but for a name's.
    """
    if isinstance(raw, dict):
        kept = {str(name): value for name, value in raw.items() if value is not None or key == "names"}
        inside = "where" if key in _COORDINATES else key if key == "names" else ""
        return {name: _tidy(value, inside or name) for name, value in kept.items()}
    if key in _NAMED:
        return list(map(str, raw if isinstance(raw, list) else [raw]))
    if isinstance(raw, list):
        return [_tidy(each, key) for each in raw]
    if key in _WORDS:
        return " ".join(str(raw).split())
    if key in _COORDINATES and isinstance(raw, str) and _ARITHMETIC.fullmatch(raw):
        with contextlib.suppress(UsageError):
            return evaluate(raw)
    return raw


def _explain(error: str) -> str:
    """Return a message of msgspec's with the place first and the nearest known key."""
    text, _, place = error.partition(" - at `$")
    place = place.strip("`.")
    if unknown := re.search(r"unknown field `(.*)`", text):
        spec = _SPECS.get(re.sub(r"\[.*?\]$", "", place).rpartition(".")[2], Experiment)
        text = f"no key {unknown[1]!r}: {suggest(unknown[1], spec.__struct_fields__)}"
    text = re.sub(r"^Object missing required field `(.*)`$", r"it needs a \1", text)
    text = re.sub(r"^Expected `object`, got `(.*)`$", r"it must be a mapping, not \1", text)
    return f"{place or 'the file'}: {text}"


_SPECS = {"published": PublishedSpec, "tables": TableSpec, "figures": FigureSpec, "sum": SumSpec}
