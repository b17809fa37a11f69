"""An experiment's folder: what the study asks, its published numbers, tables and figures (experiments/README.md)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from cuprof.core.errors import ConfigError, UsageError, suggest
from cuprof.core.expression import evaluate

STANDARD = "standard"
FACTS_HELP = "allowed are variant, device, problem, problem.AXIS, tune.NAME"
_ARITHMETIC = re.compile(r"[\d(][\d\s()+\-*/.]*")


def _evaluate(raw: Any) -> Any:
    """Return arithmetic as its number, at any depth; any other text stays text."""
    if isinstance(raw, dict):
        return {key: _evaluate(value) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_evaluate(value) for value in raw]
    with contextlib.suppress(UsageError):
        return evaluate(raw) if isinstance(raw, str) and _ARITHMETIC.fullmatch(raw) else raw
    return raw


class Text(str):
    """Text on one line; study.yaml may write a number in its place."""

    def __new__(cls, raw: object = "") -> Text:
        """Return any value as text."""
        return super().__new__(cls, " ".join(str(raw).split()))


class Names(tuple[str, ...]):
    """Names of any kind; study.yaml may write a single one without a list."""

    def __new__(cls, raw: Any = ()) -> Names:
        """Return one name, or several."""
        return super().__new__(cls, map(str, raw if isinstance(raw, (list, tuple)) else [raw]))


class Axes(Names):
    """Names of facts."""

    def __init__(self, raw: Any = ()) -> None:
        for axis in self:
            if not is_fact(axis):
                raise ValueError(f"axis {axis!r} is unknown; {FACTS_HELP}")


class Coordinates(dict[str, Any]):
    """Name → value, arithmetic evaluated ("2**24")."""

    def __init__(self, raw: Any = ()) -> None:
        if not isinstance(raw, (dict, tuple)):
            raise ValueError(f"it must be a mapping, not {type(raw).__name__}")
        super().__init__(_evaluate(raw))


class Facts(Coordinates):
    """Fact → the value, or the list of values, that a trial must have."""

    def __init__(self, raw: Any = ()) -> None:
        super().__init__(raw)
        _check_facts(self)


def is_fact(name: str) -> bool:
    """Return whether a name is one that a study can speak of trials with."""
    head, dot, tail = name.partition(".")
    return name in ("variant", "device", "problem") or (head in ("problem", "tune") and bool(dot) and bool(tail))


def _check_kind(kind: str, known: tuple[str, ...]) -> None:
    if kind not in known:
        either = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
        raise ValueError(f"kind {kind!r} is unknown; it is {either}")


def _check_facts(facts: Iterable[str]) -> None:
    for fact in facts:
        if not is_fact(fact) and fact not in ("measure", "unit", "kernel"):
            raise ValueError(f"fact {fact!r} is unknown; {FACTS_HELP}, measure, unit or kernel")


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of study.yaml; a ValueError of `__post_init__` is reported with the part's place in the file."""


class PublishedSpec(_Spec, frozen=True):
    """Say how the cells of one CSV are to be read; see experiments/README.md."""

    name: Text
    file: str
    rows: Facts = Facts()
    columns: dict[str, Facts] = {}
    names: dict[str, dict[str, Any]] = {}
    title: Text = Text()

    def __post_init__(self) -> None:
        _check_facts(self.names)


class SumSpec(_Spec, frozen=True):
    """Ask for a last row that adds the others up, each as often as `repeats` says, below rows that add up its parts."""

    label: Text
    repeats: dict[str, int] = {}
    parts: dict[str, tuple[str, ...]] = {}


class TableSpec(_Spec, frozen=True):
    """Describe one table of a study."""

    title: Text = Text()
    kind: str = "steps"
    rows: Axes = Axes(("variant",))
    columns: Axes = Axes(("problem",))
    value: Text = Text("time")
    values: dict[str, Text] = {}
    against: Text = Text()
    where: Facts = Facts()
    published: Text = Text()
    note: str = ""
    sum: SumSpec | None = None
    folded: bool = False

    def __post_init__(self) -> None:
        _check_kind(self.kind, ("steps", "pivot", "values"))
        if self.kind == "values" and not self.values:
            raise ValueError("a table of kind values needs values: a name and a quantity or counter each")


class FigureSpec(_Spec, frozen=True):
    """Describe one figure of a study."""

    title: Text = Text()
    kind: str = "lines"
    x: str = "variant"
    y: str = "time"
    value: Text = Text("time")
    series: str = "variant"
    where: Facts = Facts()
    log: Names | None = None
    roof: bool = False
    published: Text = Text()
    note: str = ""

    def __post_init__(self) -> None:
        _check_kind(self.kind, ("lines", "bars", "map"))
        Axes([self.x, self.series, *([self.y] if self.kind == "map" else [])])


class Experiment(_Spec, frozen=True):
    """Hold one study's own description; the default one asks nothing and gets the standard page.

    Attributes:
        findings_about: "gpu" where findings.md speaks of GPUs: a page of a sweep without one leaves it out.
        name, findings, folder: the folder's; study.yaml does not set them.
    """

    name: str = ""
    title: Text = Text()
    question: Text = Text()
    family: Text = Text()
    reference_problem: Coordinates = Coordinates()
    steps: Names = Names()
    baseline: Text = Text()
    libraries: Names = Names()
    problems: dict[str, Coordinates] = {}
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
        for name, coordinates in self.problems.items():
            if all(problem.get(axis) == value for axis, value in coordinates.items()):
                return name
        return ""


def find_experiment(name: str, folders: Iterable[Path]) -> Experiment:
    """Return the experiment of that name; without a folder of its own, one that asks for the standard page.

    Args:
        folders: folders of experiments; an earlier one wins.

    Raises:
        ConfigError: its study.yaml cannot be read, or says something that the schema does not know.
    """
    if name and Path(name).name == name and name not in (".", ".."):
        for folder in folders:
            if (folder / name).is_dir():
                return load_experiment(folder / name)
    return Experiment(name)


def load_experiment(folder: Path) -> Experiment:
    """Read study.yaml and findings.md of one folder; either may be absent.

    Raises:
        ConfigError: study.yaml cannot be read, or says something that the schema does not know.
    """
    path, findings = folder / "study.yaml", folder / "findings.md"
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
        text = findings.read_text(encoding="utf-8") if findings.is_file() else ""
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    try:
        study = _convert(raw or {})
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_explain(str(error))}; experiments/README.md describes the file") from error
    return msgspec.structs.replace(study, name=folder.name, findings=text, folder=folder)


def _convert(raw: Any) -> Experiment:
    """Return parsed YAML as an experiment; a single table or figure needs no list."""
    if isinstance(raw, dict):
        if own := {"name", "findings", "folder"} & raw.keys():
            raise msgspec.ValidationError(f"no key {min(own)!r}")
        for key in _LISTS & raw.keys():
            raw[key] = [] if raw[key] is None else raw[key] if isinstance(raw[key], list) else [raw[key]]
    return msgspec.convert(_tidy(raw), Experiment, dec_hook=lambda kind, given: kind(given))


def _tidy(raw: Any, key: str = "") -> Any:
    """Return parsed YAML with text as keys; a key without a value is as good as left out, but for a name's."""
    if isinstance(raw, list):
        return [_tidy(value) for value in raw]
    if not isinstance(raw, dict):
        return raw
    inside = key if key == "names" else ""
    kept = {str(name): value for name, value in raw.items() if value is not None or key == "names"}
    return {name: _tidy(value, inside or name) for name, value in kept.items()}


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


_LISTS = {"published", "tables", "figures"}
_SPECS = {"published": PublishedSpec, "tables": TableSpec, "figures": FigureSpec, "sum": SumSpec}
