"""The result of judging, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

from cuprof.core.point import Point
from cuprof.core.records import Conditions, Measure
from cuprof.statistics.verdict import Judgement, Rule


class Ruling(IntEnum):
    """The ruling on a candidate. Its number is the exit code, and JSON has its name in lower case: not_faster."""

    GOOD = 0
    NOT_FASTER = 1
    UNUSABLE = 2
    WRONG = 3


@dataclass(frozen=True)
class Row:
    """One measure of one problem: the candidate against the baseline, times in ns; `trials` are their identities."""

    problem: Point
    measure: Measure
    base_ns: float
    new_ns: float
    judgement: Judgement
    trials: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Counter:
    """One hardware counter at one problem, of the baseline and of the candidate; None where there is none."""

    problem: Point
    metric: str
    unit: str
    base: float | str | None
    new: float | str | None


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence against a candidate, or something for a reader to check.

    Args:
        what: a few words.
        detail: the place and the finding.
        counts: whether it decides the ruling; otherwise it is only shown.
    """

    what: str
    detail: str
    counts: bool = True


@dataclass(frozen=True)
class Candidate:
    """One variant of a candidate's file, with its ruling.

    Args:
        baseline: the variant it was compared with.
        message: the reason, unless the ruling is good.
    """

    file: str
    variant: str
    backend: str = ""
    baseline: str = ""
    message: str = ""
    ruling: Ruling = Ruling.UNUSABLE
    rows: tuple[Row, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    counters: tuple[Counter, ...] = ()


@dataclass(frozen=True)
class Report:
    """The rulings on all candidates.

    Args:
        sandbox: the sandbox in one line; `refusal` says why it is weaker than it could be.
        noise: device → the noise between processes that the comparison used.
        notes: caveats that a reader must know.
        database: where the results are kept, or empty.
        conditions: how counters were read; None if none were requested.
    """

    family: str
    candidates: tuple[Candidate, ...]
    sandbox: str
    refusal: str = ""
    noise: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    database: str = ""
    rule: Rule = field(default_factory=Rule)
    rounds: int = 0
    conditions: Conditions | None = None

    @property
    def exit_code(self) -> int:
        """Return the worst of all rulings."""
        return int(max((each.ruling for each in self.candidates), default=Ruling.UNUSABLE))


SCHEMA = 1
"""The version of `as_data`; raise it when a key goes or changes its meaning."""


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as plain data; times in ns, shares and ratios plain."""
    return {
        "schema": SCHEMA,
        "family": report.family,
        "exit_code": report.exit_code,
        "candidates": [_candidate(each) for each in report.candidates],
        "rule": {"effect": report.rule.effect, "error_rate": report.rule.error_rate, "correction": "holm"},
        "rounds": report.rounds,
        "noise": dict(report.noise),
        "sandbox": {"held_by": report.sandbox, "refusal": report.refusal},
        "notes": list(report.notes),
        "database": report.database or None,
        "counters": asdict(report.conditions) if report.conditions else None,
    }


def _candidate(each: Candidate) -> dict[str, Any]:
    return {
        **{name: getattr(each, name) for name in ("file", "variant", "backend", "baseline")},
        "ruling": each.ruling.name.lower(),
        "exit_code": int(each.ruling),
        "message": each.message,
        "rows": [_row(row) for row in each.rows],
        "evidence": [vars(one) for one in each.evidence],
        "counters": [{**vars(one), "problem": dict(one.problem)} for one in each.counters],
    }


def _row(row: Row) -> dict[str, Any]:
    judged = {name: getattr(row.judgement, name) for name in ("ratio", "low", "high", "verdict")}
    timed = {name: getattr(row, name) for name in ("measure", "base_ns", "new_ns")}
    return {"problem": dict(row.problem), **timed, **judged}
