"""Learn hints for a search's trials from other problems, devices and versions of the same variants."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from cuprof.core.point import Point
from cuprof.core.records import State, Trial
from cuprof.results.earlier import EarlierRun


def find_hints(
    earlier: Sequence[EarlierRun],
    trials: Sequence[Trial],
    value_of: Callable[[EarlierRun], float],
    note: Callable[[str], None],
) -> dict[int, float]:
    """Return hints for trials, by their place, as relative logarithms; see `Strategy`.

    Args:
        earlier: the variants' stored runs; runs of these very trials are ignored.
        value_of: the objective of a run; NaN if unknown.
        note: receives a line on the number of hints, if any.
    """
    known = {trial.identity for trial in trials}
    elsewhere: dict[tuple[str, object, str], dict[tuple[str, Point], float]] = defaultdict(dict)
    for run in earlier:
        value = value_of(run) if run.state is State.OK and run.identity not in known else math.nan
        if not math.isnan(value):
            elsewhere[run.variant, run.circumstances, run.method][run.variant, run.tunables] = math.log(value)
    asked = {(trial.variant, trial.tunables) for trial in trials}
    gathered: dict[tuple[str, Point], list[float]] = defaultdict(list)
    places: dict[str, set[object]] = defaultdict(set)
    for (variant, circumstances, _), logs in elsewhere.items():
        if len(logs) < 2 or asked.isdisjoint(logs):
            continue
        places[variant].add(circumstances)
        middle = float(np.median([*logs.values()]))
        for key, log in logs.items():
            gathered[key].append(log - middle)
    hints = {
        index: float(np.mean(gathered[trial.variant, trial.tunables]))
        for index, trial in enumerate(trials)
        if (trial.variant, trial.tunables) in gathered
    }
    if hints:
        note(
            f"search: what {max(map(len, places.values()))} other problems, devices or versions say of "
            f"{len(asked & gathered.keys())} choices of tunables "
            "is where it starts, and part of what it expects"
        )
    return hints
