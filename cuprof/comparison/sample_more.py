"""Time both sides of undecided comparisons again, side by side in one sweep, and judge them anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import pandas as pd

from cuprof.comparison.compare import Comparison, compare, judge_anew
from cuprof.comparison.noise import noise_within
from cuprof.comparison.sides import FOLLOW_UP, Side
from cuprof.comparison.trials import Stored, number_keys, read_trials
from cuprof.config.build import build_config
from cuprof.config.model import SweepConfig
from cuprof.core.point import Coordinate
from cuprof.core.project import Project
from cuprof.core.records import Measure
from cuprof.engine.ladder import sample_longer
from cuprof.engine.observer import Observer
from cuprof.engine.provenance import typed_command
from cuprof.engine.running import run_sweep
from cuprof.results.read import read_results
from cuprof.results.sweeps import read_configurations
from cuprof.statistics.contrasts import critical
from cuprof.statistics.noise import PREPARED
from cuprof.store.store import Store

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
        comparison: of two variants; see `reason_against`.
        observe: gives the observer of one sweep; there is a sweep for every problem.

    Raises:
        UsageError: the source of the variants is not here, or the sweep cannot be carried out.
    """
    rows = comparison.undecided[_may_decide(comparison)]
    if rows.empty:
        return _with_hopeless(comparison)
    url = comparison.base.url
    with Store.reading(url) as connection:
        configurations = read_configurations(connection, comparison.base.sweeps)
    # A sweep that was made here has no configuration of its own: it was narrowed from an earlier one's.
    configuration = next(filter(None, map(configurations.get, comparison.base.sweeps)), {})
    stored = build_config(configuration, experiment="", command_line="")
    found: list[int] = []
    (numbers,) = number_keys(rows, by=("base_problem",))
    for _, of_problem in rows.groupby(numbers):
        with observe() as observer:
            found.append(run_sweep(_narrowed(stored, of_problem, comparison, url), project, observer).sweep_id)
    sweeps = tuple(found)
    with Store.reading(url) as connection:
        trials, source = read_trials(connection, read_results(connection, sweeps)), Stored(connection.engine)
    bases, news = (trials[_is_chosen(trials, rows, side)] for side in ("base", "new"))
    named = ", ".join(map(str, sweeps))
    notes: tuple[str, ...] = (
        f"{len(rows)} undecided timed again in sweep {named}; those rows stand on its samples alone",
    )
    if {*bases["identity"], *news["identity"]} - {*rows["base_identity"], *rows["new_identity"]}:
        notes += ("the source or the software has changed since; verdicts from new samples are of what is here now",)
    again = compare(
        replace(comparison.base, trials=bases, source=source, sweeps=sweeps, notes=notes),
        replace(comparison.new, trials=news, source=source, sweeps=sweeps, notes=()),
        replace(comparison.options, measures=tuple(map(Measure, dict.fromkeys(rows["measure"])))),
    )
    return _with_hopeless(judge_anew(comparison, again))


def _may_decide(comparison: Comparison) -> np.ndarray:
    """Return whether more samples may tell each undecided row, given the noise beside them in one sweep."""
    rows, rule = comparison.undecided, comparison.options.rule
    deviation, *_ = noise_within(rows).T
    effect = math.log1p(rule.effect)
    known = math.sqrt(2.0) * critical(rule.error_rate, np.full(len(rows), np.inf)) * deviation
    with np.errstate(divide="ignore"):
        ends = np.abs(np.log(rows[["low", "high"]].to_numpy(np.float64))).max(axis=1, initial=0.0)
    found: np.ndarray = (known < effect) | (ends - known > np.maximum(known, effect))
    return found


def _with_hopeless(comparison: Comparison) -> Comparison:
    """Return the comparison with a warning about rows that were left undecided because no samples would decide them."""
    count = int((~_may_decide(comparison)).sum())
    if not count:
        return comparison
    text = f"{count} undecided not timed again: {PREPARED.text()} alone hides the effect"
    return replace(comparison, warnings=tuple(dict.fromkeys((*comparison.warnings, text))))


def _narrowed(stored: SweepConfig, rows: pd.DataFrame, comparison: Comparison, url: str) -> SweepConfig:
    """Return the configuration that times both variants of the rows' one problem together."""
    tune: dict[str, tuple[Coordinate, ...]] = {}
    for tunables in [*rows["base_tunables"], *rows["new_tunables"]]:
        for name, value in tunables.items():
            tune[name] = tuple(dict.fromkeys((*tune.get(name, ()), value)))
    measure = sample_longer(stored.measure, comparison.options.rule.effect, LONGER)
    return replace(
        stored,
        family=rows["base_family"].iloc[0],
        baseline=comparison.base.trials["variant"].iloc[0],
        variants=tuple(dict.fromkeys(rows[["base_variant", "new_variant"]].to_numpy().ravel())),
        problem={name: (value,) for name, value in rows["base_problem"].iloc[0].items()},
        presets=(),
        tune=tune,
        measure=replace(measure, modes=tuple(dict.fromkeys(rows["measure"]))),
        store=replace(stored.store, url=url),
        retry="all",
        dry_run=False,
        ncu=replace(stored.ncu, enabled=False),
        report=replace(stored.report, enabled=False),
        command_line=typed_command(),
        composed={},
        purpose=FOLLOW_UP,
    )


def _is_chosen(trials: pd.DataFrame, rows: pd.DataFrame, side: str) -> np.ndarray:
    """Return which of the new sweeps' trials stand for those of a side that were compared before."""
    names = ("variant", "backend", "problem", "tunables")
    wanted = rows[[f"{side}_{name}" for name in names]].set_axis(names, axis=1)
    own, chosen = number_keys(trials, wanted, by=names)
    return np.isin(own, chosen)
