"""The rungs that the trials of a search climb: few samples, then more, then up to three final comparisons.

Stored runs of these trials count as climbed; those of other problems, devices and versions are hints.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof.config.model import MeasureConfig, SweepConfig
from cuprof.core.point import Point
from cuprof.core.records import Outcome, State, Trial
from cuprof.results.earlier import EarlierRun
from cuprof.search.strategy import Strategy
from cuprof.worker.method import methods

FEW: dict[str, Any] = {"min_samples": 5, "max_samples": 5, "max_seconds": 0.05, "patience_seconds": 0.5}
MORE: dict[str, Any] = {"min_samples": 20, "max_samples": 60, "max_seconds": 0.25, "patience_seconds": 2.0}
"""Few samples separate most configurations from the best; the remaining ones deserve more."""
BRIEF: dict[str, Any] = {"warmup": 1, "settle_seconds": 0.05, "energy_seconds": 0.2}
CLOSE = 0.05
"""Candidates for the final comparison are within this of the best, or the best few; one that qualifies after few
samples gets more."""
LEAST_FINALISTS = 3
OVERHEAD_S = 0.01
"""The approximate cost of a trial beside its build and samples. No trial is free, since gains are weighed by cost."""
SHARE_OF_EFFECT = 0.2
"""Narrow each median's interval to this part of the effect: two of them, corrected for many comparisons, then tell
it."""
LEAST_TARGET = 5e-4


class Ladder:
    """Keep how far each trial has climbed, and choose those that climb further; trials are known by their place.

    Args:
        value_of: the objective of an outcome; NaN if it failed.

    Attributes:
        rungs: how trials are timed on the first two rungs, by the first of the sweep's measures.
        tried: those that were measured in this sweep.
        climbed: place → how many rungs it has been on.
        promoted: those that were promising when their first result arrived.
    """

    def __init__(
        self, config: SweepConfig, trials: Sequence[Trial], strategy: Strategy, value_of: Callable[[Outcome], float]
    ) -> None:
        self.config, self.settings, self.trials = config, config.search, trials
        self.strategy, self.value_of = strategy, value_of
        shared = {
            **BRIEF,
            "modes": config.measure.modes[:1],
            "energy": "energy" in config.search.factors,
            "race": config.measure.race is not False,
        }
        self.rungs = [replace(config.measure, **shared, **samples) for samples in (FEW, MORE)]
        self.tried: set[int] = set()
        self.climbed: Counter[int] = Counter()
        self.promoted: set[int] = set()

    def learn_stored(
        self, earlier: Sequence[EarlierRun], sweep_id: int, value_of: Callable[[EarlierRun], float]
    ) -> float:
        """Tell the strategy the stored results of these trials, those with more samples first.

        Args:
            sweep_id: the current sweep; trials that it tried before an interruption count as tried.
            value_of: the objective of a run; NaN if unknown.

        Returns:
            The seconds that the sweep had taken before an interruption.
        """
        measure = self.config.measure.modes[0]
        backends = {trial.backend for trial in self.trials}
        settings = (*self.rungs, replace(self.config.measure, modes=(measure,)))
        accepted = [{methods(each, backend).get(measure) for backend in backends} for each in settings]
        places = {trial.identity: place for place, trial in enumerate(self.trials)}
        by_sweep: dict[int, list[EarlierRun]] = defaultdict(list)
        for run in earlier:
            by_sweep[run.sweep_id].append(run)
        spent_s = {sweep: _spent_s(runs) for sweep, runs in by_sweep.items()}
        for run in earlier:
            index, failed = places.get(run.identity), run.state is not State.OK
            rung = next((number for number, found in enumerate(accepted) if run.method and run.method in found), None)
            if index is None or (rung is None and not failed) or (self.config.retry and run.sweep_id != sweep_id):
                continue
            if run.sweep_id == sweep_id:
                self.tried.add(index)
            if rung is not None and rung + 1 < self.climbed[index]:
                continue
            value = math.nan if failed else value_of(run)
            if math.isnan(value) and not failed:
                continue  # it was interrupted before its counters were read
            share_s = spent_s[run.sweep_id] / len(by_sweep[run.sweep_id])
            self.strategy.tell(index, value, max(share_s, OVERHEAD_S))
            self.climbed[index] = 2 if failed or rung is None else rung + 1
        return spent_s.get(sweep_id, 0.0)

    def restart_baseline(self, baseline: str) -> list[int]:
        """Return the baseline's fastest stored trial of each problem where this sweep has tried none; it climbs anew.

        A speed-up needs both times from one sweep. Where all trials are of one variant, nothing is returned.
        """
        groups, values = self.strategy.space.groups, self.strategy.values
        if len({trial.variant for trial in self.trials}) == 1:
            return []
        known = [index for index in values if self.trials[index].variant == baseline]
        done = {groups[index] for index in known if index in self.tried}
        right = [index for index in known if groups[index] not in done and not math.isnan(values[index])]
        best = {groups[index]: index for index in sorted(right, key=values.__getitem__, reverse=True)}
        self.climbed.update({index: -self.climbed[index] for index in best.values()})
        return [*best.values()]

    def tell(self, index: int, outcome: Outcome) -> None:
        """Take the result of a trial on its rung."""
        self.strategy.tell(index, self.value_of(outcome), _cost_s(outcome))
        needs_more = set(self.settings.factors) != set(self.settings.counters)  # a counter is exact at once
        if needs_more and self.climbed[index] == 1 and self._is_promising(index):
            self.promoted.add(index)

    def take_promising(self) -> list[int]:
        """Return those of the promoted that are promising still, the best first; none is promoted any more."""
        promising = sorted(filter(self._is_promising, self.promoted), key=self.strategy.values.__getitem__)
        self.promoted.clear()
        return promising

    def choose_candidates(self, group: int) -> list[int]:
        """Return the candidates for a problem's final comparison, the best first.

        Only the best one is returned if the finalists are of several back ends, which are not timed side by side, or if
        the objective is not time.
        """
        chosen = self._find_finalists(group)
        several = len({self.trials[index].backend for index in chosen}) > 1
        return chosen[:1] if several or self.settings.objective != "time" else chosen

    def _is_promising(self, index: int) -> bool:
        return index in self._find_finalists(int(self.strategy.space.groups[index]))

    def _find_finalists(self, group: int) -> list[int]:
        """Return those that would be compared if the search ended now, the best first."""
        values, groups = self.strategy.values, self.strategy.space.groups
        right = (index for index, value in values.items() if groups[index] == group and not math.isnan(value))
        ranked = heapq.nsmallest(self.settings.finalists, right, key=values.__getitem__)
        close = sum(values[index] <= (1 + CLOSE) * values[ranked[0]] for index in ranked)
        return ranked[: max(LEAST_FINALISTS, close)]


def sample_longer(measure: MeasureConfig, effect: float, times: int) -> MeasureConfig:
    """Return settings that compare trials side by side, to an interval that tells an effect.

    Args:
        effect: the smallest share by which times differ.
        times: how many times as many samples, and as much time, a trial may take.
    """
    return replace(
        measure,
        target=min(measure.target, max(LEAST_TARGET, SHARE_OF_EFFECT * effect)),
        max_samples=measure.max_samples * times,
        max_seconds=measure.max_seconds * times,
        patience_seconds=measure.patience_seconds * times,
        interleave=True,
    )


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
    choices = [(trial.variant, trial.tunables) for trial in trials]
    asked = set(choices)
    gathered: dict[tuple[str, Point], list[float]] = defaultdict(list)
    places: dict[str, set[object]] = defaultdict(set)
    for (variant, circumstances, _), logs in elsewhere.items():
        if len(logs) < 2 or asked.isdisjoint(logs):
            continue
        places[variant].add(circumstances)
        middle = float(np.median([*logs.values()]))
        for key, log in logs.items():
            gathered[key].append(log - middle)
    hints = {index: float(np.mean(gathered[key])) for index, key in enumerate(choices) if key in gathered}
    if not hints:
        return {}, ""
    return hints, (
        f"search: what {max(map(len, places.values()))} other problems, devices or versions say of "
        f"{len(asked & gathered.keys())} choices of tunables is where it starts, and part of what it expects"
    )


def _spent_s(runs: Sequence[EarlierRun]) -> float:
    """Return the seconds that runs have taken together: those of a batch begin together, and last to their answers."""
    spent_s = until = 0.0
    for began, ended in sorted((run.started_at, run.started_at + run.duration_ns / 1e9) for run in runs):
        spent_s += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return spent_s


def _cost_s(outcome: Outcome) -> float:
    """Return a trial's own cost in seconds; with neighbours, its whole duration includes theirs."""
    build_ns = outcome.build.build_ns if outcome.build and not outcome.build.cached else 0
    sampled_ns = sum(sample.duration_ns for timing in outcome.timings for sample in timing.samples)
    own_ns = build_ns + sampled_ns if outcome.timings else outcome.duration_ns
    return own_ns / 1e9 + OVERHEAD_S
