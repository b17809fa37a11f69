"""Rate a search's trials by the looks at them, and name those to compare if it ended now."""

from __future__ import annotations

import heapq
import math
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cuprof.backends.registry import get_spec, is_host
from cuprof.core.point import Coordinate
from cuprof.core.records import DeviceFacts, Measure, Outcome, State, Trial
from cuprof.engine.hints import find_hints
from cuprof.engine.looks import list_measures
from cuprof.engine.objective import ObjectiveCounters, evaluate
from cuprof.engine.planning import Prepared
from cuprof.results.earlier import EarlierRun
from cuprof.search.registry import make_strategy
from cuprof.search.space import Space
from cuprof.worker.method import methods

CLOSE = 0.05
"""Candidates for the duel are within this of the best, or the best few; one that qualifies after its first look gets a
second, with more samples."""
LEAST_FINALISTS = 3
OVERHEAD_S = 0.01
"""The approximate cost of a trial beside its build and samples. No trial is free, since gains are weighed by cost."""


class Scores:
    """Keep the results of looks at trials, and tell the strategy; trials are numbered by their place among all.

    Args:
        trials: all trials that may be tried.
        earlier: stored runs of the family's variants. Runs of these very trials count as results, others as hints.
        sweep_id: the current sweep; trials that it tried before an interruption count.
        note: receives lines for the user.
        counting: reads the objective's counters, if any.

    Attributes:
        problems: each once; their numbers are the groups of the strategy's space.
        index: identity → place.
        tried: trials looked at in this sweep.
        promoted: trials to look at a second time, if promising when their result arrived.
        spent_before_s: the seconds that the sweep had taken before an interruption.
    """

    def __init__(
        self,
        prepared: Prepared,
        trials: Sequence[Trial],
        earlier: Sequence[EarlierRun],
        sweep_id: int,
        note: Callable[[str], None],
        counting: ObjectiveCounters | None = None,
    ) -> None:
        self.config, self.settings = prepared.config, prepared.config.search
        self.trials, self.note, self.counting = tuple(trials), note, counting
        self.measure = Measure(self.config.measure.modes[0])
        self.problems = list(dict.fromkeys(trial.problem for trial in trials))
        self.index = {trial.identity: place for place, trial in enumerate(trials)}
        self.tried: set[int] = set()
        self.promoted: set[int] = set()
        self._looked: Counter[int] = Counter()
        stored = [run.identity for run in earlier if run.state is State.OK]
        self._counted = dict(counting.read(stored)) if counting else {}
        numbers = {problem: number for number, problem in enumerate(self.problems)}
        groups = [numbers[trial.problem] for trial in trials]
        space = Space([_columns(trial) for trial in trials], groups, [_suppose(trial) for trial in trials])
        seed = secrets.randbits(63) if self.settings.seed is None else self.settings.seed
        hints = find_hints(earlier, self.trials, self._value_of_run, note)
        self.strategy = make_strategy(self.settings.name, space, seed, hints)
        self.spent_before_s = 0.0
        self._learn_stored(earlier, sweep_id)

    def tell(self, outcome: Outcome) -> bool:
        """Add the result of a look; return False if its counters must be read first."""
        index = self.index[outcome.identity]
        self.tried.add(index)
        self._looked[index] += 1
        if self.counting and outcome.state is State.OK and outcome.identity not in self._counted:
            return False
        self._learn(outcome)
        return True

    def count(self, outcomes: Mapping[str, Outcome], find_device: Callable[[str], DeviceFacts | None]) -> None:
        """Have right trials profiled, and learn from their counters.

        Args:
            find_device: back end → the device to profile on.
        """
        if self.counting and outcomes:
            trials = [self.trials[self.index[identity]] for identity in outcomes]
            placed = [replace(trial, device=find_device(trial.backend)) for trial in trials]
            self._counted |= self.counting.collect(placed, outcomes)
        for outcome in outcomes.values():
            self._learn(outcome)

    def give_up(self, index: int, lasted_s: float) -> None:
        """Count a trial without a look as a failure, so that the strategy avoids similar ones."""
        self.strategy.tell(index, math.nan, lasted_s)

    def take_promising(self) -> list[int]:
        """Return those of the promoted that are promising still; none of all is promoted any more."""
        promising = sorted(filter(self._is_promising, self.promoted))
        self.promoted.clear()
        return promising

    def choose_candidates(self, group: int) -> list[int]:
        """Return the candidates for a problem's duel, the best first.

        Only the best one is returned if the finalists are of several back ends, which are not timed side by side, or if
        the objective is not time.
        """
        chosen = self._find_finalists(group)
        several = len({self.trials[index].backend for index in chosen}) > 1
        return chosen[:1] if several or self.settings.objective != "time" else chosen

    def likely_gain(self) -> float | None:
        """Return the largest relative gain that trying the rest may bring to a problem's best; None if unknown."""
        shares = [self.strategy.likely_left(group) for group in range(len(self.problems))]
        return max((share for share in shares if share is not None), default=None)

    def _learn(self, outcome: Outcome) -> None:
        index = self.index[outcome.identity]
        self.strategy.tell(index, self._value_of(outcome), _cost_s(outcome))
        if set(self.settings.factors) == set(self.settings.counters):  # a counter needs no second look
            return
        if self._looked[index] == 1 and self._is_promising(index):
            self.promoted.add(index)

    def _is_promising(self, index: int) -> bool:
        return index in self._find_finalists(int(self.strategy.space.groups[index]))

    def _find_finalists(self, group: int) -> list[int]:
        """Return those that would be compared if the search ended now, the best first."""
        values, groups = self.strategy.values, self.strategy.space.groups
        right = (index for index, value in values.items() if groups[index] == group and not math.isnan(value))
        ranked = heapq.nsmallest(self.settings.finalists, right, key=values.__getitem__)
        close = sum(values[index] <= (1 + CLOSE) * values[ranked[0]] for index in ranked)
        return ranked[: max(LEAST_FINALISTS, close)]

    def _value_of(self, outcome: Outcome) -> float:
        timing = next((each for each in outcome.timings if each.measure is self.measure), None)
        if outcome.state is not State.OK or timing is None:
            return math.nan
        energy_j = timing.energy.energy_j if timing.energy else None
        return self._value(outcome.identity, timing.summary.median_ns, energy_j)

    def _value(self, identity: str, median_ns: float | None, energy_j: float | None) -> float:
        """Return the objective; NaN if it is unknown."""
        return evaluate(self.settings.factors, median_ns, energy_j, self._counted.get(identity, {}))

    def _value_of_run(self, run: EarlierRun) -> float:
        return self._value(run.identity, run.median_ns, run.energy_j)

    def _learn_stored(self, earlier: Sequence[EarlierRun], sweep_id: int) -> None:
        """Tell the strategy the stored results of these trials, those with more samples first."""
        backends = {trial.backend for trial in self.trials}
        in_full = replace(self.config.measure, modes=(self.measure,))
        accepted = [
            {methods(each, backend)[self.measure] for backend in backends if self.measure in methods(each, backend)}
            for each in (*list_measures(self.config), in_full)
        ]
        free = set()
        by_sweep: dict[int, list[EarlierRun]] = defaultdict(list)
        for run in earlier:
            by_sweep[run.sweep_id].append(run)
        spent_s = {sweep: _spent_s(runs) for sweep, runs in by_sweep.items()}
        self.spent_before_s = spent_s.get(sweep_id, 0.0)
        for run in earlier:
            index = self.index.get(run.identity)
            look_of = next((number for number, known in enumerate(accepted) if run.method in known), None)
            failed = run.state is not State.OK
            if index is None or (look_of is None and not failed):
                continue
            if self.config.retry and run.sweep_id != sweep_id:
                continue
            if run.sweep_id == sweep_id:
                self.tried.add(index)
            if look_of is not None and look_of + 1 < self._looked[index]:
                continue
            value = math.nan if failed else self._value_of_run(run)
            if math.isnan(value) and not failed:
                continue  # it was interrupted before its counters were read
            share_s = spent_s[run.sweep_id] / len(by_sweep[run.sweep_id])
            self.strategy.tell(index, value, max(share_s, OVERHEAD_S))
            self._looked[index] = 2 if failed or look_of is None else look_of + 1
            free.add(index)
        if free:
            are = "is" if len(free) == 1 else "are"
            self.note(f"search: {len(free):,} of {len(self.trials):,} configurations {are} stored already")


def _columns(trial: Trial) -> dict[str, Coordinate]:
    """Return a trial's values for the model; tunables are named per variant, as variants may share names."""
    return {
        **{f"problem.{name}": value for name, value in trial.problem.items()},
        "variant": trial.variant,
        **{f"{trial.variant}.{name}": value for name, value in trial.tunables.items()},
    }


def _suppose(trial: Trial) -> float:
    """Return the prior guess that a back end allows for a trial; 0 on a host's processor, which has no blocks."""
    return 0.0 if is_host(trial.device) else get_spec(trial.backend).usual_block.suppose(trial.threads)


def _spent_s(runs: Sequence[EarlierRun]) -> float:
    """Return the seconds that runs have taken together: those of a job begin together, and each lasts to its answer."""
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
