"""The feed of a search: a strategy proposes trials, few samples rate them, and a duel decides the best."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from cuprof.core.processes import count_cores
from cuprof.core.project import Project
from cuprof.core.records import Measure, Outcome, Trial
from cuprof.engine.duel import LEAST_EXECUTIONS, LEAST_S, OF_TRYING, Duel, Ending, describe_ending, keep_time
from cuprof.engine.feed import LATER, Later
from cuprof.engine.jobs import job_key
from cuprof.engine.late import Late
from cuprof.engine.ledger import Ledger
from cuprof.engine.looks import FIRST, SECOND, Looks
from cuprof.engine.objective import ObjectiveCounters, check_trials
from cuprof.engine.planning import Prepared
from cuprof.engine.scores import Scores
from cuprof.engine.station import Station
from cuprof.ncu.collector import open_collector
from cuprof.results.earlier import list_earlier
from cuprof.worker.messages import Job

MOST_AT_ONCE = 16
"""At most this many trials at once: their sources compile in parallel, and none was chosen knowing the others'
results."""
TOLD_FOR_EACH = 4
"""Run one trial at once for every N finished ones, up to that maximum."""
LEAST_AGAIN = 4
"""Collect this many second looks first: a job of its own costs as much as several of them."""
LEAST_BUILT = 4
"""Compile at least this many sources in parallel: a single one would take as long."""
LEAST_AHEAD = 8
"""Once this many trials are finished, also choose the job after the next one, to build it while that one is timed."""
LEAST_GAIN = 1e-3
"""Report no smaller expected gain than this: no model predicts times that precisely."""


def open_search(
    prepared: Prepared,
    trials: Sequence[Trial],
    ledger: Ledger,
    collectors: ExitStack,
    project: Project,
    clock: Callable[[], float],
) -> SearchFeed:
    """Return the feed of a search that starts from the family's stored results.

    Args:
        collectors: closes the profiler, if the objective includes counters.
        clock: seconds, for the budget.

    Raises:
        UsageError: a trial's back end does not measure the objective.
        SelectionError: there is nothing to choose from.
        MissingDependencyError: the strategy's library is not installed.
        ProfilerError: the objective includes counters, which cannot be read here.
    """
    config, store, note = prepared.config, ledger.store, ledger.observer.note
    measure = Measure(config.measure.modes[0])
    check_trials(trials, measure, config.search)
    with store.snapshot() as connection:
        earlier = list_earlier(connection, prepared.family.name, measure, {trial.variant for trial in trials})
    counting = None
    if names := config.search.counters:
        ncu = replace(config.ncu, name="search", metrics=names, extra_metrics=(), set="", sections=())
        collector = collectors.enter_context(open_collector(replace(config, ncu=ncu), project))
        counting = ObjectiveCounters(names, collector, store, ledger.sweep_id)
    scores = Scores(prepared, trials, earlier, ledger.sweep_id, note, counting)
    return SearchFeed(prepared, scores, note, clock, len(ledger.fleet.stations))


class SearchFeed:
    """Feed the strategy's proposals until the budget is spent, then the duel of each problem's best; see `Feed`.

    Args:
        scores: the results known for all trials.
        note: receives lines for the user.
        clock: seconds.
        stations: how many there are; each has a duel at a time.

    Attributes:
        withdrawn: identities of trials given up, or still compiling when the budget was spent.
        endings: the outcome of each problem whose duel has ended.
    """

    def __init__(
        self,
        prepared: Prepared,
        scores: Scores,
        note: Callable[[str], None],
        clock: Callable[[], float],
        stations: int = 1,
    ) -> None:
        self.prepared, self.scores, self.note, self.clock = prepared, scores, note, clock
        self.trials, self.index, self.settings = scores.trials, scores.index, prepared.config.search
        self.seed = prepared.draw_seed()
        self.looks = Looks(prepared, self.trials, self.seed, profiles=scores.counting is not None)
        self.stations = stations
        self.duel_turns = math.ceil(len(scores.problems) / stations)
        self.kept_s = keep_time(prepared.config, self.duel_turns)
        self.most_trials = self.settings.most_trials(len(self.trials))
        self.began, self.tried_s = clock(), 0.0
        self.endings: list[Ending] = []
        self.withdrawn: list[str] = []
        self._late = Late(clock)
        self._uncounted: dict[Station, dict[str, Outcome]] = defaultdict(dict)
        self._ready: deque[Job] = deque()
        self._out: dict[Station, set[int]] = defaultdict(set)
        self._given: set[int] = set()
        self._duels: deque[Duel] | None = None
        self._duelling: dict[Station, Duel] = {}

    def take(self, station: Station) -> Job | Later | None:
        """Return trials of one problem and back end to look at, and in the end the candidates of one problem."""
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
        """Receive the result of a look at a trial."""
        index = self.index[outcome.identity]
        self._out[station].discard(index)
        if station in self._duelling:
            self._duelling[station].tell(outcome)
            return
        self._late.end(index)
        if not self.scores.tell(outcome):
            self._uncounted[station][outcome.identity] = outcome

    def finish(self, station: Station) -> None:
        """Read the objective's counters for the station's right trials, on its devices."""
        self.scores.count(self._uncounted.pop(station, {}), station.find_device)

    def give_back(self, station: Station, job: Job) -> None:
        """Put the open trials of a job, or the duel that it was of, back to be done by another station.

        This one is lost for good.
        """
        self.stations -= 1
        left = self._out.pop(station, set())
        trials = tuple(trial for trial in job.trials if self.index[trial.identity] in left)
        self._ready.extend(self._jobs(self._late.take(station), FIRST))
        duel = self._duelling.pop(station, None)
        if duel is not None and self._duels is not None:
            self._duels.appendleft(duel.anew())
        elif trials:
            self._ready.appendleft(replace(job, trials=trials))

    @property
    def spent_s(self) -> float:
        """Return the seconds that the search has taken, before an interruption too."""
        return self.scores.spent_before_s + self.clock() - self.began

    @property
    def _is_time_up(self) -> bool:
        budget_s = self.settings.budget_s
        return budget_s is not None and self.spent_s >= budget_s - self.kept_s

    def _ask(self, late: int = 0) -> list[Job]:
        """Return jobs for second looks at promising trials, and for new trials that the strategy asks for.

        Args:
            late: how many are under way already, still being compiled.
        """
        strategy, scores, builds_ahead = self.scores.strategy, self.scores, self.looks.builds_ahead
        count = max(1, min(MOST_AT_ONCE, len(strategy.values) // (TOLD_FOR_EACH * (1 + builds_ahead))))
        if builds_ahead:
            count = max(count, LEAST_BUILT)
        if late:
            count = max(0, max(count, min(MOST_AT_ONCE, count_cores())) - late)
        asked = strategy.ask(min(count, self.most_trials - len(scores.tried | self._given)))
        self._given.update(asked)
        is_time = len(scores.promoted) >= LEAST_AGAIN or not (asked or late)
        again = self._find_fitting(scores.take_promising()) if is_time else []
        return [*self._jobs(again, SECOND), *self._jobs(asked, FIRST)]

    def _find_fitting(self, indices: Sequence[int]) -> Sequence[int]:
        """Return the trials whose second look fits into the time left for trying: a started look is finished."""
        if self.settings.budget_s is None or self.settings.objective != "time":
            return indices
        left_s, fitting = self.settings.budget_s - self.kept_s - self.spent_s, list[int]()
        values = self.scores.strategy.values
        for index in sorted(indices, key=values.__getitem__):
            left_s -= LEAST_EXECUTIONS * values[index]
            if left_s > 0:
                fitting.append(index)
        return sorted(fitting)

    def _give_up(self, station: Station) -> None:
        """Count trials that compile for far too long as failures, so that the strategy avoids similar ones."""
        stuck = self._late.give_up(station, self.prepared.config.limits.build_s)
        self._withdraw(stuck)
        for index, lasted_s in stuck.items():
            self.scores.give_up(index, lasted_s)

    def _withdraw(self, indices: Iterable[int]) -> None:
        self.withdrawn += [self.trials[index].identity for index in indices]

    def _next_look(self, station: Station) -> Job:
        """Return the next ready job, with the deferred trials of its problem, or only deferred ones."""
        late = self._late.list_of(station)
        if not self._ready:
            job = self._jobs(late, FIRST)[0]
            self._late.take(station, [self.index[trial.identity] for trial in job.trials])
            return job
        job = self._ready.popleft()
        if not late:
            return self._with_next(job)
        if not job.least_built:
            return job
        own = self._late.take(station, [each for each in late if job_key(self.trials[each]) == job_key(job)])
        (joined,) = self._jobs([*own, *(self.index[trial.identity] for trial in job.trials)], FIRST)
        return joined

    def _with_next(self, job: Job) -> Job:
        """Return a job that knows of the one after it, as far as its worker can build that in the meantime."""
        if not self.looks.builds_meanwhile or len(self.scores.strategy.values) < LEAST_AHEAD:
            return job
        if not self._ready:
            self._ready.extend(self._ask())
        likely = [each for each in self._ready if job_key(each) == job_key(job)]
        return replace(job, ahead=likely[0].trials) if likely else job

    def _jobs(self, indices: Sequence[int], look: int) -> list[Job]:
        return self.looks.make([self.trials[index] for index in indices], look)

    def _begin_duels(self) -> deque[Duel]:
        scores = self.scores
        candidates = [scores.choose_candidates(group) for group in range(len(scores.problems))]
        known = sum(index not in scores.tried for chosen in candidates for index in chosen)
        self.note(
            f"search: tried {len(scores.tried):,} of {len(self.trials):,} configurations in {self.spent_s:.1f} s"
            + (f"; {known} more, stored before, are in the last comparison" if known else "")
        )
        if stuck_s := self._late.stuck_s:
            self.note(f"search: {len(stuck_s)} were compiled for over {min(stuck_s):.0f} s and are left out")
        if (left := scores.likely_gain()) is not None:
            gain = f"about {100 * left:.1f} %" if left >= LEAST_GAIN else f"less than {100 * LEAST_GAIN:g} %"
            self.note(
                f"search: its model expects trying the rest to gain {gain}; it knows nothing beyond what it has seen"
            )
        self.tried_s = self.spent_s
        duels: deque[Duel] = deque()
        known_of = Counter(scores.problems[group] for group in scores.strategy.space.groups[[*scores.strategy.values]])
        for problem, chosen in zip(scores.problems, candidates, strict=True):
            if chosen:
                is_time = self.settings.objective == "time"
                values = [scores.strategy.values[index] for index in chosen]
                value = None if is_time else values[0]
                known_s = values if is_time and self.settings.budget_s else ()
                trials = tuple(self.trials[index] for index in chosen)
                given = self.prepared, trials, scores.measure, self.seed, self.clock
                duels.append(Duel(*given, value=value, known_s=known_s))
            else:
                self._end(Ending(problem, None, math.nan, tried=known_of[problem]))
        return duels

    def _find_duel_time(self) -> float:
        """Return the seconds that the next duel may take: its share of the time left for the duels to come."""
        if self.settings.budget_s is None:
            return max(LEAST_S, OF_TRYING * self.tried_s / self.duel_turns)
        turns = max(1, math.ceil(len(self._duels or ()) / max(1, self.stations)))
        return max(self.kept_s / self.duel_turns, (self.settings.budget_s - self.spent_s) / turns)

    def _end(self, ending: Ending) -> None:
        self.endings.append(ending)
        self.note(describe_ending(ending, self.settings))
