"""How the samples of the variants spread around their medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuprof.report.series import fastest_variants
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial

MOST_POINTS = 400
"""Points a variant that are given for drawing."""
WHISKER = 1.5
"""Fences reach to the last sample within this many interquartile ranges of the box (Tukey 1977, Exploratory Data
Analysis, 2D)."""


@dataclass(frozen=True)
class Spread:
    """The samples of one trial around their median, in percent of it.

    Args:
        q1, q3: quartiles, of readings spread over the timer's tick as everywhere.
        fences: the last samples that are no outliers.
        points: those within the axis, at most `MOST_POINTS`.
    """

    trial: StudyTrial
    q1: float
    q3: float
    fences: tuple[float, float]
    points: tuple[float, ...]


@dataclass(frozen=True)
class Distribution:
    """The spreads of the best tunables of each contender at the reference problem.

    Args:
        low, high: ends of an axis on which nearly all samples lie.
        samples: how many there are.
        notes: what is not drawn.
    """

    spreads: tuple[Spread, ...]
    low: float
    high: float
    samples: int
    notes: tuple[str, ...]


def distribution(study: Study) -> Distribution | None:
    """Return how samples spread around their medians, None where no sample is stored."""
    every, notes = fastest_variants(study)
    around = {trial: values for trial in every if (values := _around(trial)).size}
    if not around:
        return None
    pooled = np.concatenate(list(around.values()))
    low, high = min(-1.0, 1.3 * float(np.quantile(pooled, 0.01))), max(1.0, 1.3 * float(np.quantile(pooled, 0.97)))
    inside = {trial: values[(values >= low) & (values <= high)] for trial, values in around.items()}
    beyond = int(pooled.size - sum(values.size for values in inside.values()))
    more = list(notes)
    if beyond:
        more.append(f"{beyond} of {pooled.size} samples lie outside the axis and are not drawn; the boxes count them.")
    if any(values.size > MOST_POINTS for values in inside.values()):
        more.append(f"At most {MOST_POINTS} points a variant are drawn; the boxes are of all samples.")
    spreads = tuple(_spread(trial, values, thin(inside[trial].tolist())) for trial, values in around.items())
    return Distribution(spreads, low, high, int(pooled.size), tuple(more))


def thin(values: Sequence[float]) -> list[float]:
    """Return the values, at most `MOST_POINTS` of them, evenly over their order; the ends stay."""
    if len(values) <= MOST_POINTS:
        return list(values)
    return [values[round(i * (len(values) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]


def _around(trial: StudyTrial) -> np.ndarray:
    """Return a trial's samples around its median in percent, ascending."""
    if not (trial.entry and trial.median_ns and trial.measure in trial.entry.measures):
        return np.empty(0)
    return np.sort(trial.entry.read(trial.measure).values / trial.median_ns - 1) * 100


def _spread(trial: StudyTrial, values: np.ndarray, points: Sequence[float]) -> Spread:
    assert trial.timing is not None  # those without samples are left out
    summary = trial.timing.summary
    q1, q3 = ((quartile / summary.median_ns - 1) * 100 for quartile in (summary.q1_ns, summary.q3_ns))
    reach = WHISKER * (q3 - q1)
    near = values[(values >= q1 - reach) & (values <= q3 + reach)]
    fences = (float(near[0]), float(near[-1])) if near.size else (q1, q3)
    return Spread(trial, q1, q3, fences, tuple(points))
