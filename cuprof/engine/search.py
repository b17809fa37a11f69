"""Schedule a search by successive halving: a strategy proposes, few samples rate, and the best climb the ladder.

Jamieson & Talwalkar: Non-stochastic Best Arm Identification and Hyperparameter Optimization, AISTATS 2016.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from cuprof.backends.registry import get_spec, is_host
from cuprof.core.point import Coordinate
from cuprof.core.processes import count_cores
from cuprof.core.records import Outcome, State, Trial
from cuprof.core.text import count
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.engine.final import LEAST_EXECUTIONS, LEAST_S, OF_TRYING, Final, keep_time
from cuprof.engine.ladder import Ladder, find_hints
from cuprof.engine.objective import ObjectiveCounters, check_trials, evaluate
from cuprof.engine.observer import Observer
from cuprof.engine.planning import Prepared
from cuprof.engine.profiling import Profiling
from cuprof.engine.recorder import Recorder
from cuprof.ncu.collector import open_collector
from cuprof.results.earlier import EarlierRun, list_earlier
from cuprof.results.sweeps import list_tried
from cuprof.search.registry import make_strategy
from cuprof.search.space import Space
from cuprof.worker.messages import Job

MOST_AT_ONCE = 16
"""At most this many trials at once: their sources compile in parallel, and none was chosen knowing the others'
results."""
TOLD_FOR_EACH = 4
"""Run one trial at once for every N finished ones, up to that maximum."""
LEAST_AGAIN = 4
"""Collect this many trials for the second rung first: a batch of its own costs as much as several of them."""
LEAST_BUILT = 4
"""Compile at least this many sources in parallel: a single one would take as long."""
LEAST_AHEAD = 8
"""Once this many trials are finished, build the next ones while others are timed."""
LEAST_GAIN = 1e-3
"""Report no smaller expected gain than this: no model predicts times that precisely."""


class SearchScheduler:
    """Schedule a strategy's proposals until the budget is spent, then the final comparison of each problem's best.

    Trials are known by their place among all, `trials`.

    Args:
        earlier: stored runs of the family's variants. Runs of these very trials count as results, others as hints.
        sweep_id: the current sweep; trials that it tried before an interruption count.
        executors: how many there are; each has a final comparison at a time.
        counting: reads the objective's counters, if any.

    Attributes:
        endings: the final comparisons that have ended.
    """

    def __init__(
        self,
        prepared: Prepared,
        trials: Sequence[Trial],
        earlier: Sequence[EarlierRun],
        sweep_id: int,
        note: Callable[[str], None],
        clock: Callable[[], float],
        executors: int = 1,
        counting: ObjectiveCounters | None = None,
    ) -> None:
        self.prepared, self.settings, self.note, self.clock = prepared, prepared.config.search, note, clock
        self.trials, self.counting, self.executors = tuple(trials), counting, executors
        self.measure = prepared.config.measure.modes[0]
        self.problems = list(dict.fromkeys(trial.problem for trial in trials))
        self.index = {trial.identity: place for place, trial in enumerate(trials)}
        stored = [run.identity for run in earlier if run.state is State.OK]
        self._backends = {trial.backend for trial in trials}
        self._counted = dict(counting.read(stored)) if counting else {}
        hints, told = find_hints(earlier, self.trials, self._value_of_run)
        if told:
            note(told)
        seed = secrets.randbits(63) if self.settings.seed is None else self.settings.seed
        numbers = {problem: number for number, problem in enumerate(self.problems)}
        groups = [numbers[trial.problem] for trial in trials]
        space = Space([_columns(trial) for trial in trials], groups, [_suppose(trial) for trial in trials])
        self.strategy = make_strategy(self.settings.name, space, seed, hints)
        self.ladder = Ladder(prepared.config, self.trials, self.strategy, self._value_of)
        self._spent_before_s = self.ladder.learn_stored(earlier, sweep_id, self._value_of_run)
        if known := len(self.strategy.values):
            are = "is" if known == 1 else "are"
            note(f"search: {known:,} of {len(self.trials):,} configurations {are} stored already")
        self._final_turns = math.ceil(len(self.problems) / executors)
        self._kept_s = keep_time(prepared.config, self._final_turns)
        self._most_trials = self.settings.most_trials(len(self.trials))
        self._began, self._tried_s = clock(), 0.0
        baseline = prepared.config.baseline or prepared.family.get_baseline()
        self._orphans = self.ladder.restart_baseline(baseline)[: self._most_trials]
        self._given = {*self._orphans}
        self._asked: defaultdict[Executor, list[int]] = defaultdict(list)
        """What an executor builds, or is to measure next."""
        self._out: defaultdict[Executor, set[int]] = defaultdict(set)
        self._uncounted: defaultdict[Executor, dict[str, Outcome]] = defaultdict(dict)
        self.endings: list[Final] = []
        self._finals: deque[Final] | None = None
        self._final_at: dict[Executor, Final] = {}

    @property
    def done(self) -> bool:
        """Return whether every problem's final comparison has ended."""
        return self._finals is not None and not self._finals and not self._final_at

    def ask(self, executor: Executor) -> Batch | None:
        """Return trials of one problem and back end to rate, and in the end the candidates of one problem."""
        if not all(map(executor.can_do, self._backends)):
            return None  # a final comparison may be of any of them
        self._out.pop(executor, None)
        self._count(executor)
        if self._finals is None:
            batch = self._ask_trials(executor)
            if batch or any(self._out.values()) or any(self._asked.values()):
                return batch
            self._finals = self._begin_finals()
        return self._ask_final(executor)

    def tell(self, executor: Executor, result: Result) -> None:
        """Receive the result of a trial on its rung."""
        outcome, index = result.outcome, self.index[result.outcome.identity]
        self._out[executor].discard(index)
        if executor in self._final_at:
            self._final_at[executor].tell(outcome)
            return
        self.ladder.tried.add(index)
        self.ladder.climbed[index] += 1
        if self.counting and outcome.state is State.OK and outcome.identity not in self._counted:
            self._uncounted[executor][outcome.identity] = outcome
        else:
            self.ladder.tell(index, outcome)

    def release(self, executor: Executor) -> None:
        """Leave an executor's open trials, or its final comparison, to others; it is lost for good."""
        self.executors -= 1
        final, left = self._final_at.pop(executor, None), self._out.pop(executor, set())
        if final is not None and self._finals is not None:
            self._finals.appendleft(final)  # from its beginning
        else:
            self._orphans += [*self._asked.pop(executor, []), *left]

    @property
    def spent_s(self) -> float:
        """Return the seconds that the search has taken, before an interruption too."""
        return self._spent_before_s + self.clock() - self._began

    @property
    def _left_s(self) -> float:
        """Return the seconds left for trying, which may be negative."""
        budget_s = self.settings.budget_s
        return math.inf if budget_s is None else budget_s - self._kept_s - self.spent_s

    def _ask_trials(self, executor: Executor) -> Batch | None:
        """Return trials for the first or the second rung, or what to build for them; None where there are none."""
        asked = self._asked[executor]
        asked += self._orphans
        self._orphans.clear()
        if self._left_s <= 0:
            asked.clear()
            return None
        ready = self._list_ready(executor)
        self._propose(executor, len(asked) - len(ready))
        may_climb = len(self.ladder.promoted) >= LEAST_AGAIN or not asked
        if may_climb and (again := self._find_fitting()):
            batch = self._rate(executor, again, rung=1)
            self.ladder.promoted.update({*again} - self._out[executor])
            return batch
        if ready := ready or self._list_ready(executor):
            return self._rate(executor, ready, rung=0)
        return Batch(build=tuple(self._list_jobs(executor, asked))) if asked else None

    def _rate(self, executor: Executor, indices: Sequence[int], rung: int) -> Batch:
        """Return a batch that rates those of some trials that share a job with the first, and builds the next ones."""
        job = self._list_jobs(executor, indices, rung)[0]
        self._out[executor] = chosen = {self.index[trial.identity] for trial in job.trials}
        self._asked[executor] = [index for index in self._asked[executor] if index not in chosen]
        return Batch(job, tuple(self._list_jobs(executor, self._asked[executor])), secrets.token_hex(8))

    def _list_ready(self, executor: Executor) -> list[int]:
        """Return what an executor can measure now."""
        trials = ((index, self.trials[index]) for index in self._asked[executor])
        return [index for index, trial in trials if executor.is_built(trial.backend, trial.identity)]

    def _propose(self, executor: Executor, building: int) -> None:
        """Ask the strategy for as many trials as an executor should have under way; `building` are not built yet."""
        asked, told = self._asked[executor], len(self.strategy.values)
        builds_ahead = all(map(executor.builds_ahead, self._backends))
        wanted = max(1, min(MOST_AT_ONCE, told // (TOLD_FOR_EACH * (1 + builds_ahead))))
        if builds_ahead:
            wanted = max(wanted, LEAST_BUILT)
        if building:  # slow compilers had better work on all cores
            wanted = max(wanted, min(MOST_AT_ONCE, count_cores()))
        if len(asked) > building and (told < LEAST_AHEAD or not builds_ahead):
            return  # there is something to measure
        most = min(wanted - building, self._most_trials - len(self.ladder.tried | self._given))
        chosen = self.strategy.ask(max(0, most))
        self._given.update(chosen)
        asked += chosen

    def _find_fitting(self) -> list[int]:
        """Return the trials whose second rung fits into the time left for trying: what has begun is finished."""
        left_s, fitting = self._left_s if self.settings.objective == "time" else math.inf, list[int]()
        for index in self.ladder.take_promising():
            left_s -= LEAST_EXECUTIONS * self.strategy.values[index]
            if left_s > 0:
                fitting.append(index)
        return fitting

    def _list_jobs(self, executor: Executor, indices: Iterable[int], rung: int = 0) -> list[Job]:
        jobs = self.prepared.list_jobs((self.trials[index] for index in indices), self.ladder.rungs[rung])
        # Arrays stay on the device for the next job, but where a profiled process needs the memory, too.
        stays = self.counting is None
        return [replace(job, is_block=stays and not executor.is_host(job.backend)) for job in jobs]

    def _count(self, executor: Executor) -> None:
        """Have right trials profiled, on their executor's devices, and learn from their counters."""
        outcomes = self._uncounted.pop(executor, {})
        if self.counting and outcomes:
            trials = [self.trials[self.index[identity]] for identity in outcomes]
            placed = [replace(trial, device=executor.find_device(trial.backend)) for trial in trials]
            self._counted |= self.counting.collect(placed, outcomes)
        for identity, outcome in outcomes.items():
            self.ladder.tell(self.index[identity], outcome)

    def _begin_finals(self) -> deque[Final]:
        ladder, values = self.ladder, self.strategy.values
        candidates = [ladder.choose_candidates(group) for group in range(len(self.problems))]
        known = sum(index not in ladder.tried for chosen in candidates for index in chosen)
        self.note(
            f"search: tried {len(ladder.tried):,} of {len(self.trials):,} configurations in {self.spent_s:.1f} s"
            + (f"; {known} more, stored before, are in the last comparison" if known else "")
        )
        shares = [self.strategy.likely_left(group) for group in range(len(self.problems))]
        if known_shares := [share for share in shares if share is not None]:
            left = max(known_shares)
            gain = f"about {100 * left:.1f} %" if left >= LEAST_GAIN else f"less than {100 * LEAST_GAIN:g} %"
            self.note(
                f"search: its model expects trying the rest to gain {gain}; it knows nothing beyond what it has seen"
            )
        self._tried_s = self.spent_s
        known_of = Counter(self.problems[group] for group in self.strategy.space.groups[[*values]])
        finals: deque[Final] = deque()
        for problem, chosen in zip(self.problems, candidates, strict=True):
            if not chosen:
                objective = self.settings.objective
                lacks = "" if objective == "time" else f" with a known {objective}"
                said = f"none of {count(known_of[problem], 'configuration')} tried gives a right result{lacks}"
                none = f"no configuration was tried; give a larger {' or '.join(self.settings.bounds)}"
                self.note(f"search: {problem.label}: {said if known_of[problem] else none}")
                continue
            rated, trials = [values[index] for index in chosen], tuple(self.trials[index] for index in chosen)
            finals.append(Final(self.prepared, trials, self.clock, values=rated))
        return finals

    def _ask_final(self, executor: Executor) -> Batch | None:
        """Return the next look of an executor's final comparison, or the first one of another problem's."""
        final = self._final_at.get(executor)
        if final is not None and final.is_over:
            self.endings.append(self._final_at.pop(executor))
            self.note(final.describe())
        if executor not in self._final_at:
            if not self._finals:
                return None
            allowed_s = self._find_final_time()
            self._final_at[executor] = replace(self._finals.popleft(), allowed_s=allowed_s)
        return Batch(job=self._final_at[executor].next_job(), series=secrets.token_hex(8))

    def _find_final_time(self) -> float:
        """Return the seconds that the next final may take: its share of the time left for those to come."""
        if self.settings.budget_s is None:
            return max(LEAST_S, OF_TRYING * self._tried_s / self._final_turns)
        turns = max(1, math.ceil(len(self._finals or ()) / max(1, self.executors)))
        return max(self._kept_s / self._final_turns, (self.settings.budget_s - self.spent_s) / turns)

    def _value_of(self, outcome: Outcome) -> float:
        """Return the objective of an outcome; NaN if it is unknown."""
        timing = outcome.find_timing(self.measure)
        if timing is None or outcome.state is not State.OK:
            return math.nan
        energy_j = timing.energy.energy_j if timing.energy else None
        counters = self._counted.get(outcome.identity, {})
        return evaluate(self.settings.factors, timing.summary.median_ns, energy_j, counters)

    def _value_of_run(self, run: EarlierRun) -> float:
        return evaluate(self.settings.factors, run.median_ns, run.energy_j, self._counted.get(run.identity, {}))


def open_search(recorder: Recorder, collectors: ExitStack, locks: DeviceLocks) -> SearchScheduler:
    """Return the scheduler of a search that starts from the family's stored results.

    Args:
        collectors: closes the profiler, if the objective includes counters.
        locks: of the devices. The budget's clock stands still while turns are waited for.

    Raises:
        UsageError: a trial's back end does not measure the objective.
        SelectionError: there is nothing to choose from.
        MissingDependencyError: the strategy's library is not installed.
        ProfilerError: the objective includes counters, which cannot be read here.
    """
    prepared, store, note = recorder.prepared, recorder.store, recorder.observer.note
    config, every = prepared.config, prepared.plan.trials
    with store.snapshot() as connection:
        recorder.members = list_tried(connection, recorder.sweep_id)
    recorder.observer.started(None, recorder.members)
    note(f"a search among {count(len(every), 'trial')}")
    recorder.take_over()
    trials = [trial for trial in every if not trial.unavailable and trial.identity not in recorder.concluded]
    measure = config.measure.modes[0]
    check_trials(trials, measure, config.search)
    with store.snapshot() as connection:
        earlier = list_earlier(connection, prepared.family.name, measure, {trial.variant for trial in trials})

    counting, executors = None, len(recorder.executors)
    clock = make_clock(locks, executors)
    if names := config.search.counters:
        ncu = replace(config.ncu, name="search", metrics=names, extra_metrics=(), set="", sections=())
        collector = collectors.enter_context(open_collector(replace(config, ncu=ncu), recorder.project))
        counting = ObjectiveCounters(names, Profiling(collector, store, recorder.sweep_id, Observer(), locks.hold))
    return SearchScheduler(prepared, trials, earlier, recorder.sweep_id, note, clock, executors, counting)


def make_clock(locks: DeviceLocks, executors: int) -> Callable[[], float]:
    """Return a clock in seconds that stands still while turns are waited for: others' work spends no budget."""
    return lambda: time.monotonic() - locks.waited_s / executors


def _suppose(trial: Trial) -> float:
    """Return a trial's likely time relative to others, as a logarithm; a host's processor has no blocks."""
    return 0.0 if is_host(trial.device) else get_spec(trial.backend).usual_block.suppose(trial.threads)


def _columns(trial: Trial) -> dict[str, Coordinate]:
    """Return a trial's values for the model; tunables are named per variant, as variants may share names."""
    return {
        **{f"problem.{name}": value for name, value in trial.problem.items()},
        "variant": trial.variant,
        **{f"{trial.variant}.{name}": value for name, value in trial.tunables.items()},
    }
