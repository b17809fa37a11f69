"""Trials that are in no database, for comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuprof.comparison.sides import Side
from cuprof.comparison.trials import make_trials
from cuprof.core.point import Point
from cuprof.core.records import Measure
from cuprof.statistics.samples import Samples

Record = dict[str, Any]


def series(durations: Any, rounds: Any = None, rotation: str = "", **facts: float) -> Samples:
    """Return the samples of one series."""
    return Samples.of([np.asarray(durations, dtype=np.float64)], [rounds], rotation=rotation, **facts)


def record(
    family: str,
    variant: str,
    problem: Point,
    tunables: Point,
    times: Mapping[Measure, Samples] | None = None,
    **facts: Any,
) -> Record:
    """Return one trial of a side; see `cuprof.comparison.trials.COLUMNS`."""
    return {
        "family": family,
        "variant": variant,
        "problem": problem,
        "tunables": tunables,
        "series": times or {},
        **facts,
    }


def made_side(kind: str, records: Sequence[Record], text: str = "", description: str = "", **facts: Any) -> Side:
    """Return a side of these trials."""
    return Side(text or kind, kind, description or text or kind, *make_trials(records), **facts)
