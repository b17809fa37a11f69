"""An experiment's folder: what the study asks, its published numbers, tables and figures (experiments/README.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from cuprof.core.errors import ConfigError, UsageError, suggest
from cuprof.core.expression import evaluate
from cuprof.report.facts import FACTS_HELP, Facts, is_fact

STANDARD = "standard"
_ARITHMETIC = re.compile(r"[\d(][\d\s()+\-*/.]*")


@dataclass(frozen=True)
class PublishedSpec:
    """Say how the cells of one CSV are to be read; see experiments/README.md."""

    name: str
    file: str
    rows: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True)
class SumSpec:
    """Ask for a last row that adds the others up, each as often as `repeats` says."""

    label: str
    repeats: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSpec:
    """Describe one table of a study."""

    title: str = ""
    kind: str = "steps"
    rows: tuple[str, ...] = ("variant",)
    columns: tuple[str, ...] = ("problem",)
    value: str = "time"
    values: Mapping[str, str] = field(default_factory=dict)
    against: str = ""
    where: Facts = field(default_factory=dict)
    published: str = ""
    note: str = ""
    sum: SumSpec | None = None
    folded: bool = False


@dataclass(frozen=True)
class FigureSpec:
    """Describe one figure of a study."""

    title: str = ""
    kind: str = "lines"
    x: str = "variant"
    y: str = "time"
    value: str = "time"
    series: str = "variant"
    where: Facts = field(default_factory=dict)
    log: tuple[str, ...] | None = None
    roof: bool = False
    published: str = ""
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """Hold one study's own description; the default one asks nothing and gets the standard page."""

    name: str
    title: str = ""
    question: str = ""
    family: str = ""
    reference_problem: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    baseline: str = ""
    libraries: tuple[str, ...] = ()
    problems: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: tuple[PublishedSpec, ...] = ()
    tables: tuple[TableSpec, ...] = (TableSpec(),)
    figures: tuple[FigureSpec | str, ...] = (STANDARD,)
    findings: str = ""
    folder: Path | None = None

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
    return _Reader(path).experiment(folder, raw or {}, text)


Spec = TypeVar("Spec", PublishedSpec, TableSpec, FigureSpec, SumSpec)


class _Reader:
    """Turn parsed YAML into dataclasses; every complaint names the file and the place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def experiment(self, folder: Path, raw: Any, findings: str) -> Experiment:
        known = {each.name for each in fields(Experiment)} - {"name", "findings", "folder"}
        given = dict(self._mapping(raw, "the file", known))
        for key in ("steps", "libraries"):
            given[key] = tuple(map(str, self._list(given.get(key))))
        given["reference_problem"] = self._numbers(given.get("reference_problem"), "reference_problem")
        problems = self._mapping(given.get("problems"), "problems")
        given["problems"] = {str(name): self._numbers(each, f"problems.{name}") for name, each in problems.items()}
        readers = {"published": self._published, "tables": self._table, "figures": self._figure}
        for key, read in readers.items():
            if key in given:
                given[key] = tuple(read(each, f"{key}[{i}]") for i, each in enumerate(self._list(given[key])))
        names = [each.name for each in given.get("published", ())]
        for place, each in [(key, spec) for key in ("tables", "figures") for spec in given.get(key, ())]:
            if not isinstance(each, str) and each.published and each.published not in names:
                self._fail(f"{place} names published table {each.published!r}: {suggest(each.published, names)}")
        texts = {
            key: " ".join(str(given.get(key) or "").split()) for key in ("title", "question", "family", "baseline")
        }
        return Experiment(**{**given, **texts, "name": folder.name, "findings": findings, "folder": folder})

    def _published(self, raw: Any, place: str) -> PublishedSpec:
        spec = self._spec(PublishedSpec, raw, place)
        for facts in (spec.rows, spec.names, *spec.columns.values()):
            self._check_facts(facts, place)
        columns = {str(column): self._facts(facts, place) for column, facts in spec.columns.items()}
        names = {fact: {str(old): new for old, new in renames.items()} for fact, renames in spec.names.items()}
        return PublishedSpec(spec.name, spec.file, self._facts(spec.rows, place), columns, names, spec.title)

    def _table(self, raw: Any, place: str) -> TableSpec:
        given = dict(self._mapping(raw, place))
        if given.get("kind", "steps") not in ("steps", "pivot", "values"):
            self._fail(f"{place} has kind {given['kind']!r}; a table is of kind steps, pivot or values")
        if given.get("kind") == "values":
            given["values"] = {
                name: str(value) for name, value in self._mapping(given.get("values"), f"{place}.values").items()
            }
            if not given["values"]:
                self._fail(f"{place} is of kind values and needs values: a name and a quantity or counter each")
        for key in ("rows", "columns"):
            if key in given:
                given[key] = tuple(self._axis(each, place) for each in self._list(given[key]))
        if given.get("sum") is not None:
            given["sum"] = self._spec(SumSpec, given["sum"], f"{place}.sum")
        return self._spec(TableSpec, {**given, "where": self._facts(given.get("where"), place)}, place)

    def _figure(self, raw: Any, place: str) -> FigureSpec | str:
        if raw == STANDARD:
            return STANDARD
        given = dict(self._mapping(raw, place))
        if given.get("kind", "lines") not in ("lines", "bars", "map"):
            self._fail(
                f"{place} has kind {given['kind']!r}; a figure is of kind lines, bars or map, or the word standard"
            )
        for key in ("x", "series") + (("y",) if given.get("kind") == "map" else ()):
            if key in given:
                given[key] = self._axis(given[key], place)
        if "log" in given:
            given["log"] = tuple(map(str, self._list(given["log"])))
        return self._spec(FigureSpec, {**given, "where": self._facts(given.get("where"), place)}, place)

    def _spec(self, kind: type[Spec], raw: Any, place: str) -> Spec:
        given = self._mapping(raw, place, {each.name for each in fields(kind)})
        for each in fields(kind):
            if each.default is MISSING and each.default_factory is MISSING and not given.get(each.name):
                self._fail(f"{place} needs a {each.name}")
        return kind(**given)

    def _mapping(self, raw: Any, place: str, known: Iterable[str] | None = None) -> Mapping[str, Any]:
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            self._fail(f"{place} must be a mapping, not {type(raw).__name__}")
        for key in raw:
            if known is not None and key not in known:
                self._fail(f"{place} has no key {key!r}: {suggest(str(key), known)}")
        return {str(key): value for key, value in raw.items()}

    @staticmethod
    def _list(raw: Any) -> Sequence[Any]:
        return raw if isinstance(raw, list) else [] if raw is None else [raw]

    def _axis(self, raw: Any, place: str) -> str:
        if not is_fact(str(raw)):
            self._fail(f"{place} has axis {raw!r}; {FACTS_HELP}")
        return str(raw)

    def _facts(self, raw: Any, place: str) -> dict[str, Any]:
        facts = self._mapping(raw, place)
        self._check_facts(facts, place)
        return {
            fact: [self._number(each) for each in value] if isinstance(value, list) else self._number(value)
            for fact, value in facts.items()
        }

    def _check_facts(self, facts: Mapping[str, Any], place: str) -> None:
        for fact in facts:
            if not is_fact(str(fact)) and fact not in ("measure", "unit", "kernel"):
                self._fail(f"{place} has fact {fact!r}; {FACTS_HELP}, measure, unit or kernel")

    def _numbers(self, raw: Any, place: str) -> dict[str, Any]:
        return {name: self._number(value) for name, value in self._mapping(raw, place).items()}

    @staticmethod
    def _number(value: Any) -> Any:
        """Return arithmetic as its number ("2**24"); any other text stays text."""
        if not isinstance(value, str) or not _ARITHMETIC.fullmatch(value):
            return value
        try:
            return evaluate(value)
        except UsageError:
            return value

    def _fail(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.path}: {message}; experiments/README.md describes the file")
