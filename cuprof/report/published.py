"""Published numbers: the cells of a study's CSV files as facts, values and units; never mixed with measured ones."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from cuprof.core.errors import ConfigError
from cuprof.core.files import read_regular
from cuprof.report.experiment import Experiment, PublishedSpec
from cuprof.report.trials import StudyTrial
from cuprof.report.units import PUBLISHED_UNITS, QUANTITIES


@dataclass(frozen=True)
class PublishedValue:
    """Hold one number that a study reported.

    Args:
        device: whose number it is.
        kernel: the kernel that it is of, where it is not of all launches together.
        problem, tunables: those coordinates that the study states.
        value: in the base unit of its dimension (ns, bytes/s, fraction, J; a counter in its own unit), None where the
            text is not a number.
        text: as it was reported.
    """

    table: str
    device: str
    variant: str
    measure: str
    unit: str
    value: float | None
    text: str
    problem: Mapping[str, Any]
    tunables: Mapping[str, Any]
    kernel: str

    def fits(self, problem: Mapping[str, Any]) -> bool:
        """Return whether this number is of that problem; coordinates that only one of them states fit anything."""
        return all(problem.get(axis, value) == value for axis, value in self.problem.items())


def read_published(experiment: Experiment) -> tuple[PublishedValue, ...]:
    """Return every published number of an experiment, in the order of its files.

    Raises:
        UsageError: a file cannot be read, or a cell is left without a variant, a measure or a unit.
    """
    return tuple(value for spec in experiment.published for value in _read(experiment, spec))


def whole(values: Iterable[PublishedValue]) -> PublishedValue | None:
    """Return the value of all launches together, None where only the kernels' own were published."""
    return next((value for value in values if not value.kernel), None)


def list_published(
    published: Iterable[PublishedValue], measure: str, trial: StudyTrial, facts: Iterable[str], *, reference: str = ""
) -> tuple[PublishedValue, ...]:
    """Return the published values of a trial, comparing only the tunables that are among `facts`.

    A value that does not state one of these tunables is left out: one number does not hold for every column. There is
    one value, or one for each kernel where the kernels' counters were published separately.

    Args:
        published: the values of one table.
        reference: for the measure "speedup": the variant whose published time is divided by this one's; where no times
            are published, a speedup that is.
    """
    if measure == "speedup" and trial.variant != reference:
        times = (_find(published, "time", trial, facts), _find(published, "time", trial, facts, reference))
        after, before = map(whole, times)
        if after and before and after.value and before.value is not None:
            ratio = before.value / after.value
            return (replace(after, measure="speedup", unit="x", value=ratio, text=""),)
    return _find(published, measure, trial, facts)


def _find(
    published: Iterable[PublishedValue], measure: str, trial: StudyTrial, facts: Iterable[str], reference: str = ""
) -> tuple[PublishedValue, ...]:
    """Return the values of a measure that are of a trial, or of another variant at its problem."""
    own = {} if reference else dict(trial.tunables)
    needed = {fact.partition(".")[2] for fact in facts if fact.startswith("tune.")} & own.keys()
    found: dict[str, PublishedValue] = {}
    for value in published:
        is_of = value.measure == measure and value.variant == (reference or trial.variant) and value.fits(trial.problem)
        if is_of and needed <= value.tunables.keys() and value.tunables.items() <= own.items():
            found.setdefault(value.kernel, value)
    return tuple(found.values())


def _read(experiment: Experiment, spec: PublishedSpec) -> Iterator[PublishedValue]:
    path = (experiment.folder or Path()) / spec.file
    try:
        reader = csv.DictReader(StringIO(read_regular(path).decode(), newline=""))
        lines, header = list(reader), list(reader.fieldnames or ())
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"published table {spec.name!r}: {path} cannot be read: {error}") from error
    if missing := [column for column in spec.columns if column not in header]:
        raise ConfigError(
            f"published table {spec.name!r}: {path} has no column {missing[0]!r}; it has {', '.join(header)}"
        )
    for number, line in enumerate(lines, start=2):
        for column, more in spec.columns.items():
            text = (line[column] or "").strip()
            place = f"{path}, line {number}, column {column!r}"
            facts = _facts({**spec.rows, **more}, line, spec.names, place)
            if text and facts is not None:
                yield _value(experiment, spec, facts, text, place)


def _facts(
    templates: Mapping[str, Any], line: Mapping[str, str], names: Mapping[str, Mapping[str, Any]], place: str
) -> dict[str, Any] | None:
    """Return what a row and a column say together, or None where a rename leaves it out."""

    def fill(match: re.Match[str]) -> str:
        if match[1] not in line:
            raise ConfigError(f"{place}: no column {match[1]!r}; there are {', '.join(map(str, line))}")
        return (line[match[1]] or "").strip()

    facts: dict[str, Any] = {}
    for fact, template in templates.items():
        value = re.sub(r"\{([^{}]+)\}", fill, template) if isinstance(template, str) else template
        if str(value) in (renames := names.get(fact, {})):
            value = renames[str(value)]
            if value is None:
                return None
        elif isinstance(value, str) and "." in fact:
            value = _coordinate(value)
        facts[fact] = value
    return facts


def _value(
    experiment: Experiment, spec: PublishedSpec, facts: Mapping[str, Any], text: str, place: str
) -> PublishedValue:
    for needed in ("variant", "measure"):
        if not facts.get(needed):
            raise ConfigError(f"{place}: nothing says the {needed}; add it to rows or columns of {spec.name!r}")
    name, known = facts.get("problem"), experiment.problems
    if name is not None and str(name) not in known:
        raise ConfigError(f"{place}: problem {name!r} is not under problems; there are {', '.join(known)}")
    words = {fact: str(facts.get(fact) or "") for fact in ("device", "variant", "measure", "unit", "kernel")}
    # a counter stays in its own unit, Nsight's, as the measured one does
    is_counter = words["measure"] not in QUANTITIES and not words["measure"].endswith("_speedup")
    size = 1.0 if is_counter else PUBLISHED_UNITS.get(words["unit"], 1.0)
    number = _coordinate(text)
    return PublishedValue(
        table=spec.name,
        value=float(number) * size if isinstance(number, (int, float)) else None,
        text=text,
        problem={**known.get(str(name), {}), **_under("problem.", facts)},
        tunables=_under("tune.", facts),
        **words,
    )


def _under(head: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {fact.removeprefix(head): value for fact, value in facts.items() if fact.startswith(head)}


def _coordinate(text: str) -> int | float | str:
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text
