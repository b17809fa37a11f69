"""Time both sides of undecided comparisons again, side by side in one sweep, and judge them anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from cuprof.comparison.compare import ComparedTrial, Comparison, compare, judge_anew
from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.noise import noise_within
from cuprof.comparison.stored import FOLLOW_UP, read_entries
from cuprof.config import SweepConfig
from cuprof.config.build import build_config
from cuprof.core.point import Coordinate, Point
from cuprof.core.project import Project
from cuprof.engine.observer import Observer
from cuprof.engine.provenance import typed_command
from cuprof.engine.sweep import run_sweep
from cuprof.results.sweeps import read_configurations
from cuprof.statistics.noise import PREPARED
from cuprof.store import Store

SHARE_OF_EFFECT = 0.2
"""The interval of each median is narrowed to this part of the effect: two of them, corrected for many comparisons,
then still tell it."""
LEAST_TARGET = 5e-4
LONGER = 10
"""How many times as many samples, and as much time, a trial may take."""


def reason_against(base: Side, new: Side) -> str:
    """Return why two sides cannot be timed side by side, or the empty text."""
    if base.kind == "variant" and new.kind == "variant":
        return ""
    return (
        f"BASE is {base.description} and NEW is {new.description}: only variants of the source that is here can be "
        "timed side by side; the verdicts stand as they are"
    )


def sample_more(
    comparison: Comparison, project: Project, observe: Callable[[], AbstractContextManager[Observer]]
) -> Comparison:
    """Measure the undecided rows again, interleaved and to a narrower interval, and judge them by the new samples.

    The new samples alone count, by the same rule. Two looks double the chance of an error, so give each half of it.

    Args:
        observe: gives the observer of one sweep; there is a sweep for every problem.

    Raises:
        UsageError: the source of the variants is not here, or the sweep cannot be carried out.
        ValueError: the sides are not variants; see `reason_against`.
    """
    if reason_against(comparison.base, comparison.new):
        raise ValueError(reason_against(comparison.base, comparison.new))
    rows = tuple(row for row in comparison.undecided if _may_decide(row, comparison))
    if not rows:
        return _with_hopeless(comparison)
    url = comparison.base.url
    with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
        configurations = read_configurations(connection, comparison.base.sweeps)
    # A sweep that was made here has no configuration of its own: it was narrowed from an earlier one's.
    configuration = next(filter(None, map(configurations.get, comparison.base.sweeps)), {})
    stored = build_config(configuration, experiment="", command_line="")
    bases: list[Entry] = []
    news: list[Entry] = []
    sweeps: list[int] = []
    for problem, of_problem in _by_problem(rows).items():
        with observe() as observer:
            result = run_sweep(_narrowed(stored, problem, of_problem, comparison, url), project, observer)
        sweeps.append(result.sweep_id)
        with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
            found = read_entries(connection, [result.sweep_id])
        bases += _chosen(found, [row.match.base for row in of_problem])
        news += _chosen(found, [row.match.new for row in of_problem])
    before = {id(row.match): row.match for row in rows}.values()
    known = {entry.identity for match in before for entry in (match.base, match.new)}
    numbers = ", ".join(map(str, sweeps))
    notes: tuple[str, ...] = (
        f"{len(rows)} undecided timed again in sweep {numbers}; those rows stand on its samples alone",
    )
    if {entry.identity for entry in (*bases, *news)} - known:
        notes += ("the source or the software has changed since; verdicts from new samples are of what is here now",)
    again = compare(
        replace(comparison.base, entries=bases, sweeps=tuple(sweeps), notes=notes),
        replace(comparison.new, entries=news, sweeps=tuple(sweeps), notes=()),
        replace(comparison.options, measures=tuple(dict.fromkeys(row.measure for row in rows))),
    )
    return _with_hopeless(judge_anew(comparison, again))


def _may_decide(row: ComparedTrial, comparison: Comparison) -> bool:
    """Return whether more samples may tell a row, given what is reckoned with beside them in one sweep."""
    rule = comparison.options.rule
    effect, known = (
        math.log1p(rule.effect),
        math.sqrt(2.0) * noise_within(row.match, row.measure).reach(rule.error_rate),
    )
    farthest = max(abs(math.log(bound)) if bound > 0 else math.inf for bound in (row.judgement.low, row.judgement.high))
    return known < effect or farthest - known > max(known, effect)


def _with_hopeless(comparison: Comparison) -> Comparison:
    """Return the comparison with a warning about rows that were left undecided because no samples would decide them."""
    count = sum(not _may_decide(row, comparison) for row in comparison.undecided)
    if not count:
        return comparison
    text = f"{count} undecided not timed again: {PREPARED.text()} alone hides the effect"
    return replace(comparison, warnings=tuple(dict.fromkeys((*comparison.warnings, text))))


def _narrowed(
    stored: SweepConfig, problem: Point, rows: Sequence[ComparedTrial], comparison: Comparison, url: str
) -> SweepConfig:
    """Return the configuration that times both variants of one problem together."""
    entries = [entry for row in rows for entry in (row.match.base, row.match.new)]
    tune: dict[str, tuple[Coordinate, ...]] = {}
    for entry in entries:
        for name, value in entry.tunables.items():
            tune[name] = tuple(dict.fromkeys((*tune.get(name, ()), value)))
    measure = stored.measure
    target = max(LEAST_TARGET, SHARE_OF_EFFECT * comparison.options.rule.effect)
    return replace(
        stored,
        family=entries[0].family,
        baseline=comparison.base.entries[0].variant,
        variants=tuple(dict.fromkeys(entry.variant for entry in entries)),
        problem={name: (value,) for name, value in problem.items()},
        presets=(),
        tune=tune,
        measure=replace(
            measure,
            modes=tuple(dict.fromkeys(row.measure for row in rows)),
            target=min(measure.target, target),
            max_samples=measure.max_samples * LONGER,
            max_seconds=measure.max_seconds * LONGER,
            patience_seconds=measure.patience_seconds * LONGER,
            interleave=True,
        ),
        store=replace(stored.store, url=url),
        retry="all",
        dry_run=False,
        ncu=replace(stored.ncu, enabled=False),
        report=replace(stored.report, enabled=False),
        command_line=typed_command(),
        composed={},
        purpose=FOLLOW_UP,
    )


def _by_problem(rows: Sequence[ComparedTrial]) -> dict[Point, list[ComparedTrial]]:
    grouped: dict[Point, list[ComparedTrial]] = {}
    for row in rows:
        grouped.setdefault(row.match.base.problem, []).append(row)
    return grouped


def _chosen(found: Sequence[Entry], wanted: Sequence[Entry]) -> list[Entry]:
    """Return those of the new sweep's trials that stand for the ones compared before."""
    keys = {(entry.variant, entry.backend, entry.problem, entry.tunables) for entry in wanted}
    return [entry for entry in found if (entry.variant, entry.backend, entry.problem, entry.tunables) in keys]
