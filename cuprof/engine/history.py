"""What stored runs tell a search: results of its own trials, and hints from elsewhere."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cuprof.config.model import SweepConfig
from cuprof.core.point import Point
from cuprof.core.records import State, Trial
from cuprof.engine.ladder import OVERHEAD_S, Ladder, list_rungs
from cuprof.results.earlier import EarlierRun
from cuprof.worker.method import methods


def learn_stored(
    earlier: Sequence[EarlierRun],
    ladder: Ladder,
    config: SweepConfig,
    sweep_id: int,
    value_of: Callable[[EarlierRun], float],
) -> tuple[int, float]:
    """Tell a search's strategy the stored results of its trials, those with more samples first.

    Args:
        sweep_id: the current sweep; trials that it tried before an interruption count as tried.
        value_of: the objective of a run; NaN if unknown.

    Returns:
        How many trials are known, and the seconds that the sweep had taken before an interruption.
    """
    measure = config.measure.modes[0]
    backends = {trial.backend for trial in ladder.trials}
    settings = (*list_rungs(config), replace(config.measure, modes=(measure,)))
    accepted = [{methods(each, backend).get(measure) for backend in backends} for each in settings]
    places = {trial.identity: place for place, trial in enumerate(ladder.trials)}
    by_sweep: dict[int, list[EarlierRun]] = defaultdict(list)
    for run in earlier:
        by_sweep[run.sweep_id].append(run)
    spent_s = {sweep: _spent_s(runs) for sweep, runs in by_sweep.items()}
    known = set()
    for run in earlier:
        index, failed = places.get(run.identity), run.state is not State.OK
        rung = next((number for number, found in enumerate(accepted) if run.method and run.method in found), None)
        if index is None or (rung is None and not failed) or (config.retry and run.sweep_id != sweep_id):
            continue
        if run.sweep_id == sweep_id:
            ladder.tried.add(index)
        if rung is not None and rung + 1 < ladder.climbed[index]:
            continue
        value = math.nan if failed else value_of(run)
        if math.isnan(value) and not failed:
            continue  # it was interrupted before its counters were read
        share_s = spent_s[run.sweep_id] / len(by_sweep[run.sweep_id])
        ladder.strategy.tell(index, value, max(share_s, OVERHEAD_S))
        ladder.climbed[index] = 2 if failed or rung is None else rung + 1
        known.add(index)
    return len(known), spent_s.get(sweep_id, 0.0)


def _spent_s(runs: Sequence[EarlierRun]) -> float:
    """Return the seconds that runs have taken together: those of a batch begin together, and last to their answers."""
    spent_s = until = 0.0
    for began, ended in sorted((run.started_at, run.started_at + run.duration_ns / 1e9) for run in runs):
        spent_s += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return spent_s


def find_hints(
    earlier: Sequence[EarlierRun], trials: Sequence[Trial], value_of: Callable[[EarlierRun], float]
) -> tuple[dict[int, float], str]:
    """Learn from other problems, devices and versions of the same variants.

    Args:
        earlier: the variants' stored runs; runs of these very trials are ignored.
        value_of: the objective of a run; NaN if unknown.

    Returns:
        Hints for trials, by their place, as relative logarithms (see `Strategy`), and a line on them, if any.
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
    if not hints:
        return {}, ""
    return hints, (
        f"search: what {max(map(len, places.values()))} other problems, devices or versions say of "
        f"{len(asked & gathered.keys())} choices of tunables is where it starts, and part of what it expects"
    )
