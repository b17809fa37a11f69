"""The feed of a search: a strategy says what to try, few samples say how good it is, and a duel who is best."""

from __future__ import annotations

import heapq
import math
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from cuprof.backends.registry import get_spec, is_host
from cuprof.config.model import MeasureConfig, SearchConfig
from cuprof.cores import count_cores
from cuprof.engine.duel import LEAST_EXECUTIONS, LEAST_S, OF_TRYING, Duel, Ending, describe_ending, keep_time
from cuprof.engine.feed import LATER, Later, make_jobs
from cuprof.engine.hints import find_hints
from cuprof.engine.late import Late
from cuprof.engine.ledger import Ledger
from cuprof.engine.objective import PROFILER, ObjectiveCounters, check_counters, check_energy, check_measure, evaluate
from cuprof.engine.planning import Prepared
from cuprof.engine.station import Station
from cuprof.measure.method import methods
from cuprof.point import Coordinate, Point
from cuprof.profiling.registry import get_profiler
from cuprof.project import Project
from cuprof.reading.earlier import EarlierRun, list_earlier
from cuprof.records import Measure, Outcome, State, Trial
from cuprof.search.registry import make_strategy
from cuprof.search.space import Space
from cuprof.worker.messages import Job

FIRST_LOOK: dict[str, Any] = {"min_samples": 5, "max_samples": 5, "max_seconds": 0.05, "patience_seconds": 0.5}
SECOND_LOOK: dict[str, Any] = {"min_samples": 20, "max_samples": 60, "max_seconds": 0.25, "patience_seconds": 2.0}
BRIEF: dict[str, Any] = {"warmup": 1, "settle_seconds": 0.05, "energy_seconds": 0.2}
CLOSE = 0.05
"""Candidates for the duel are within this of the best, or the best few; who is one after the first look is looked at a
second time, with more samples."""
LEAST_FINALISTS = 3
MOST_AT_ONCE = 16
"""Trials under way: their sources are compiled side by side, and their choices know nothing of one another."""
TOLD_FOR_EACH = 4
"""What is under way is one trial for so many that have been told, until it is the most."""
LEAST_AGAIN = 4
"""Second looks wait until they are so many: a job of its own costs as much as several of them."""
LEAST_BUILT = 4
"""But sources that are compiled side by side are so many at a time: one would take as long."""
LEAST_READY = 2
"""When so many of a job are compiled they are timed, and those that take longer are put off. Then the processor's cores
have the most at once: what the device waits for is worth more than choices that know more."""
LEAST_AHEAD = 8
"""When so many have been told, the job after the next one is chosen as well, to be built while that one is timed."""
OVERHEAD_S = 0.01
LEAST_GAIN = 1e-3


def open_search(
    prepared: Prepared,
    trials: Sequence[Trial],
    ledger: Ledger,
    collectors: ExitStack,
    project: Project,
    clock: Callable[[], float],
) -> SearchFeed:
    """Return the feed of a search, which knows what is stored of the family.

    Args:
        collectors: closes the profiler, where counters are to be small.
        clock: seconds, by which the budget is spent.
    """
    config, store, note = prepared.config, ledger.store, ledger.observer.note
    measure = Measure(config.measure.modes[0])
    check_measure(trials, measure)
    with store.snapshot() as connection:
        earlier = list_earlier(connection, prepared.family.name, measure, {trial.variant for trial in trials})
    if "energy" in config.search.factors:
        check_energy(trials)
    counting = None
    if names := config.search.counters:
        check_counters(names, trials, get_profiler(PROFILER))
        ncu = replace(config.ncu, name="search", metrics=names, extra_metrics=(), set="", sections=())
        collector = collectors.enter_context(get_profiler(PROFILER).open(replace(config, ncu=ncu), project))
        counting = ObjectiveCounters(names, collector, store, ledger.sweep_id)
    return SearchFeed(prepared, trials, earlier, ledger.sweep_id, note, counting, clock, len(ledger.fleet.stations))


class SearchFeed:
    """Feed what a strategy asks for until the budget is spent, then the duel of each problem's best; see `Feed`.

    Args:
        trials: all that may be tried.
        earlier: what is stored of the family's variants: of these very trials it is told for free, of others it gives
            hints.
        sweep_id: of the sweep under way; what it tried before it was interrupted counts.
        note: told lines that people should read.
        counting: reads the counters that the objective has, if any.
        clock: seconds.
        stations: how many there are; each has a duel at a time.
    """

    def __init__(
        self,
        prepared: Prepared,
        trials: Sequence[Trial],
        earlier: Sequence[EarlierRun],
        sweep_id: int,
        note: Callable[[str], None],
        counting: ObjectiveCounters | None = None,
        clock: Callable[[], float] = time.monotonic,
        stations: int = 1,
    ) -> None:
        self.prepared, self.trials, self.note, self.clock = prepared, tuple(trials), note, clock
        self.counting = counting
        stored = [run.identity for run in earlier if run.state is State.OK]
        self._counted = dict(counting.read(stored)) if counting else {}
        self._uncounted: dict[Station, dict[str, Outcome]] = defaultdict(dict)
        self.settings: SearchConfig = prepared.config.search
        self.measure = Measure(prepared.config.measure.modes[0])
        self.looks = [
            _narrowed(prepared.config.measure, self.measure, self.settings, each) for each in (FIRST_LOOK, SECOND_LOOK)
        ]
        self.problems = list(dict.fromkeys(trial.problem for trial in trials))
        self.stations = stations
        self.duel_turns = math.ceil(len(self.problems) / stations)
        self.kept_s = keep_time(prepared.config, self.duel_turns)
        numbers = {problem: number for number, problem in enumerate(self.problems)}
        self.index = {trial.identity: number for number, trial in enumerate(trials)}
        groups = [numbers[trial.problem] for trial in trials]
        supposed = [_suppose(trial) for trial in trials]
        space = Space([_columns(trial) for trial in trials], groups, supposed)
        seed = secrets.randbits(63) if self.settings.seed is None else self.settings.seed
        self.seed = prepared.draw_seed()
        hints = find_hints(earlier, self.trials, self._value_of_run, note)
        self.strategy = make_strategy(self.settings.name, space, seed, hints)
        self.most_trials = self.settings.most_trials(space.size)
        self.tried: set[int] = set()
        self.spent_before_s = 0.0
        self.began, self.tried_s = clock(), 0.0
        self.endings: list[Ending] = []
        self._looked: Counter[int] = Counter()
        self.withdrawn: list[str] = []
        """Identities of those that were given up, or compiled still when the budget was spent."""
        self._late = Late(clock)
        self._promoted: set[int] = set()
        self._ready: deque[Job] = deque()
        self._out: dict[Station, set[int]] = defaultdict(set)
        self._given: set[int] = set()
        self._builds_ahead = all(get_spec(trial.backend).builds_ahead for trial in trials)
        self._builds_meanwhile = self._builds_ahead and not any(is_host(trial.device) for trial in trials)
        """Whether something may be compiled while others are timed; on the host it would take part in the times."""
        self._duels: deque[Duel] | None = None
        self._duelling: dict[Station, Duel] = {}
        self._learn_stored(earlier, sweep_id)

    def take(self, station: Station) -> Job | Later | None:
        """Return trials of one problem and back end to look at, and in the end the candidates of one problem."""
        self._count(self._uncounted.pop(station, {}))
        self._late.put_off(station, self._out.pop(station, ()))
        self._give_up(station)
        if self._duels is None:
            if self._is_time_up:
                self._ready.clear()
                self._withdraw(self._late.take(station))
            elif not self._ready:
                self._ready.extend(self._ask(len(self._late.list_of(station))))
            if self._ready or self._late.list_of(station):
                job = self._next_look(station)
                self._out[station] = {self.index[trial.identity] for trial in job.trials}
                self._late.begin(self._out[station])
                return job
            if any(self._out.values()) or self._late:
                return LATER
            self._duels = self._begin_duels()
        duel = self._duelling.get(station)
        if duel is None or duel.ending is not None:
            if duel is not None and duel.ending is not None:
                self._end(duel.ending)
            self._duelling.pop(station, None)
            if not self._duels:
                return LATER if self._duelling else None
            allowed_s = self._find_duel_time()
            duel = self._duelling[station] = self._duels.popleft()
            duel.allowed_s = allowed_s
        return duel.next_job()

    def tell(self, station: Station, outcome: Outcome) -> None:
        """Take what a look at a trial came to."""
        index = self.index[outcome.identity]
        self._out[station].discard(index)
        if station in self._duelling:
            self._duelling[station].tell(outcome)
            return
        self.tried.add(index)
        self._late.end(index)
        self._looked[index] += 1
        if self.counting and outcome.state is State.OK and outcome.identity not in self._counted:
            self._uncounted[station][outcome.identity] = outcome
        else:
            self._learn(outcome)

    def _count(self, outcomes: Mapping[str, Outcome]) -> None:
        """Have right trials profiled, and learn what that came to."""
        if self.counting and outcomes:
            trials = [self.trials[self.index[identity]] for identity in outcomes]
            self._counted |= self.counting.collect(trials, outcomes)
        for outcome in outcomes.values():
            self._learn(outcome)

    def _learn(self, outcome: Outcome) -> None:
        index = self.index[outcome.identity]
        self.strategy.tell(index, self._value_of(outcome), _cost_s(outcome))
        self._promote(index)

    def give_back(self, station: Station, job: Job) -> None:
        """Put the open trials of a job, or the duel that it was of, back to be done by another station.

        This one is lost for good.
        """
        self.stations -= 1
        left = self._out.pop(station, set())
        trials = tuple(trial for trial in job.trials if self.index[trial.identity] in left)
        self._ready.extend(self._jobs(self._late.take(station), 0))
        duel = self._duelling.pop(station, None)
        if duel is not None and self._duels is not None:
            self._duels.appendleft(duel.anew())
        elif trials:
            self._ready.appendleft(replace(job, trials=trials))

    @property
    def spent_s(self) -> float:
        """Return the seconds that the search has taken, before an interruption too."""
        return self.spent_before_s + self.clock() - self.began

    @property
    def _is_time_up(self) -> bool:
        budget_s = self.settings.budget_s
        return budget_s is not None and self.spent_s >= budget_s - self.kept_s

    def _ask(self, late: int = 0) -> list[Job]:
        """Return jobs of what is promising enough for a second look, and of what the strategy asks for.

        Args:
            late: how many are under way already, since they are compiled still.
        """
        count = max(1, min(MOST_AT_ONCE, len(self.strategy.values) // (TOLD_FOR_EACH * (1 + self._builds_ahead))))
        if self._builds_ahead:
            count = max(count, LEAST_BUILT)
        if late:
            count = max(0, max(count, min(MOST_AT_ONCE, count_cores())) - late)
        asked = self.strategy.ask(min(count, self.most_trials - len(self.tried | self._given)))
        self._given.update(asked)
        again: list[int] = []
        if len(self._promoted) >= LEAST_AGAIN or not (asked or late):
            again = self._find_fitting(sorted(filter(self._is_promising, self._promoted)))
            self._promoted.clear()
        return [*self._jobs(again, 1), *self._jobs(asked, 0)]

    def _find_fitting(self, indices: Sequence[int]) -> list[int]:
        """Return those that can be looked at again in the time for trying: a look under way is not broken off."""
        if self.settings.budget_s is None or self.settings.objective != "time":
            return [*indices]
        left_s, fitting = self.settings.budget_s - self.kept_s - self.spent_s, list[int]()
        for index in sorted(indices, key=self.strategy.values.__getitem__):
            left_s -= LEAST_EXECUTIONS * self.strategy.values[index]
            if left_s > 0:
                fitting.append(index)
        return sorted(fitting)

    def _give_up(self, station: Station) -> None:
        """Take what is compiled for far too long for a failure, so that nothing like it is asked for."""
        stuck = self._late.give_up(station, self.prepared.config.limits.build_s)
        self._withdraw(stuck)
        for index, lasted_s in stuck.items():
            self.strategy.tell(index, math.nan, lasted_s)

    def _withdraw(self, indices: Iterable[int]) -> None:
        self.withdrawn += [self.trials[index].identity for index in indices]

    def _next_look(self, station: Station) -> Job:
        """Return the next job that is ready, with what was put off of its problem, or of what was put off alone."""
        late = self._late.list_of(station)
        if not self._ready:
            job = self._jobs(late, 0)[0]
            self._late.take(station, [self.index[trial.identity] for trial in job.trials])
            return job
        job = self._ready.popleft()
        if not late:
            return self._with_next(job)
        if not job.least_built:
            return job
        own = self._late.take(station, [each for each in late if _place(self.trials[each]) == _place(job)])
        (joined,) = self._jobs([*own, *(self.index[trial.identity] for trial in job.trials)], 0)
        return joined

    def _with_next(self, job: Job) -> Job:
        """Return a job that knows of the one after it, as far as its worker can build that in the meantime."""
        if not self._builds_meanwhile or len(self.strategy.values) < LEAST_AHEAD:
            return job
        if not self._ready:
            self._ready.extend(self._ask())
        likely = [each for each in self._ready if _place(each) == _place(job)]
        return replace(job, ahead=likely[0].trials) if likely else job

    def _jobs(self, indices: Sequence[int], number: int) -> list[Job]:
        together: dict[tuple[Point, str], list[Trial]] = defaultdict(list)
        for index in indices:
            together[_place(self.trials[index])].append(self.trials[index])
        measure = self.looks[number]
        least_built = LEAST_READY if self._builds_meanwhile and not number else 0
        return [
            replace(
                job,
                measure=measure,
                methods=methods(measure, backend),
                is_block=self._keeps_arrays(trials[0]),
                least_built=0 if job.isolated else least_built,  # whose worker ends with the job
            )
            for (problem, backend), trials in together.items()
            for job in make_jobs(self.prepared, problem, trials, self.seed)
        ]

    def _keeps_arrays(self, trial: Trial) -> bool:
        """Return whether arrays stay on the device for the next job; a profiled process needs its memory, too."""
        return self.counting is None and not is_host(trial.device)

    def _promote(self, index: int) -> None:
        if set(self.settings.factors) == set(self.settings.counters):  # a counter needs no second look
            return
        if self._looked[index] == 1 and self._is_promising(index):
            self._promoted.add(index)

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
        """Return what is to be small; NaN where it is not known."""
        return evaluate(self.settings.factors, median_ns, energy_j, self._counted.get(identity, {}))

    def _value_of_run(self, run: EarlierRun) -> float:
        return self._value(run.identity, run.median_ns, run.energy_j)

    def _learn_stored(self, earlier: Sequence[EarlierRun], sweep_id: int) -> None:
        """Tell the strategy what is stored of these very trials; more samples count before fewer."""
        backends = {trial.backend for trial in self.trials}
        accepted = [
            {methods(each, backend)[self.measure] for backend in backends if self.measure in methods(each, backend)}
            for each in (*self.looks, replace(self.prepared.config.measure, modes=(str(self.measure),)))
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
            if self.prepared.config.retry and run.sweep_id != sweep_id:
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
            self.note(f"search: {len(free):,} of {len(self.trials):,} configurations are stored already")

    def _begin_duels(self) -> deque[Duel]:
        candidates = [self._choose_candidates(number) for number in range(len(self.problems))]
        known = sum(index not in self.tried for chosen in candidates for index in chosen)
        self.note(
            f"search: tried {len(self.tried):,} of {len(self.trials):,} configurations in {self.spent_s:.1f} s"
            + (f"; {known} more, stored before, are in the last comparison" if known else "")
        )
        if stuck_s := self._late.stuck_s:
            self.note(f"search: {len(stuck_s)} were compiled for over {min(stuck_s):.0f} s and are left out")
        left = [share for group in range(len(self.problems)) if (share := self.strategy.likely_left(group)) is not None]
        if left:
            gain = f"about {100 * max(left):.1f} %" if max(left) >= LEAST_GAIN else f"less than {100 * LEAST_GAIN:g} %"
            self.note(
                f"search: its model expects trying the rest to gain {gain}; it knows nothing of what it has not met"
            )
        self.tried_s = self.spent_s
        duels: deque[Duel] = deque()
        known_of = Counter(self.problems[group] for group in self.strategy.space.groups[[*self.strategy.values]])
        for problem, chosen in zip(self.problems, candidates, strict=True):
            if chosen:
                is_time = self.settings.objective == "time"
                values = [self.strategy.values[index] for index in chosen]
                value, known_s = (
                    (None if is_time else values[0]),
                    (values if is_time and self.settings.budget_s else ()),
                )
                trials = tuple(self.trials[index] for index in chosen)
                duels.append(
                    Duel(self.prepared, trials, self.measure, self.seed, self.clock, value=value, known_s=known_s)
                )
            else:
                self._end(Ending(problem, None, math.nan, tried=known_of[problem]))
        return duels

    def _find_duel_time(self) -> float:
        """Return the seconds that the next duel may take: its part of what is left for those that have not begun."""
        if self.settings.budget_s is None:
            return max(LEAST_S, OF_TRYING * self.tried_s / self.duel_turns)
        turns = max(1, math.ceil(len(self._duels or ()) / max(1, self.stations)))
        return max(self.kept_s / self.duel_turns, (self.settings.budget_s - self.spent_s) / turns)

    def _choose_candidates(self, group: int) -> list[int]:
        """Return who takes part in the duel: of several back ends, which are not timed side by side, the best alone.

        So where it is not time that is to be small.
        """
        chosen = self._find_finalists(group)
        several = len({self.trials[index].backend for index in chosen}) > 1
        return chosen[:1] if several or self.settings.objective != "time" else chosen

    def _end(self, ending: Ending) -> None:
        self.endings.append(ending)
        self.note(describe_ending(ending, self.settings))


def _narrowed(config: MeasureConfig, measure: Measure, settings: SearchConfig, few: Mapping[str, Any]) -> MeasureConfig:
    """Return how a look of few samples is timed."""
    return replace(config, **BRIEF, **few, modes=(str(measure),), energy="energy" in settings.factors)


def _place(each: Trial | Job) -> tuple[Point, str]:
    """Return what trials of one job have in common."""
    return each.problem, each.backend


def _columns(trial: Trial) -> dict[str, Coordinate]:
    """Return what a model sees of a trial; a tunable is one of its variant's, whose names others may use otherwise."""
    return {
        **{f"problem.{name}": value for name, value in trial.problem.items()},
        "variant": trial.variant,
        **{f"{trial.variant}.{name}": value for name, value in trial.tunables.items()},
    }


def _suppose(trial: Trial) -> float:
    """Return what its back end lets suppose of a trial; of a host's processor, which has no blocks, nothing."""
    return 0.0 if is_host(trial.device) else get_spec(trial.backend).usual_block.suppose(trial.threads)


def _spent_s(runs: Sequence[EarlierRun]) -> float:
    """Return the seconds that runs have taken together: those of a job begin together, and each lasts to its answer."""
    spent_s = until = 0.0
    for began, ended in sorted((run.started_at, run.started_at + run.duration_ns / 1e9) for run in runs):
        spent_s += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return spent_s


def _cost_s(outcome: Outcome) -> float:
    """Return the seconds that a trial has cost by itself; beside others its whole duration is theirs, too."""
    build_ns = outcome.build.build_ns if outcome.build and not outcome.build.cached else 0
    sampled_ns = sum(sample.duration_ns for timing in outcome.timings for sample in timing.samples)
    own_ns = build_ns + sampled_ns if outcome.timings else outcome.duration_ns
    return own_ns / 1e9 + OVERHEAD_S
