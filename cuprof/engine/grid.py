"""Run everything that is planned: in the order of the plan, or shared by several executors and processes."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from types import MappingProxyType

from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.engine.dispatcher import Scheduler
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.engine.planning import job_key
from cuprof.engine.recorder import Recorder
from cuprof.worker.messages import Job, JobTrial

BLOCKS_AN_EXECUTOR = 1.25
"""A block is the remaining work divided by this many times the executors, so blocks get smaller towards the end (guided
self-scheduling: Polychronopoulos & Kuck, IEEE Transactions on Computers C-36, 1987). A larger factor spends more time
on starting blocks; a smaller one makes fast executors wait for slow ones."""
LEAST_BLOCK_S = 1.0
"""Make a block last at least about this long, judging by the trials so far: an executor needs half a second to start
one."""
ASK_AGAIN_S, ASK_AT_LEAST_S, ASKING_SHARE = 1.0, 10.0, 0.05
"""Ask this often whether other processes have done, or lost, the trials that they claimed. Of a million trials, asking
takes a second: then it takes this share of the time."""
ASKED_S = 1 / 32
"""Of many stations, each asks less often: their database answers one of them in this time."""
NEAR = 64
"""Ask which of this many problems are free where others had claimed the next one; if none is, few of all are."""
LEAST_CUT = 32
"""Do not split a problem with fewer trials than this: each executor that takes part measures the reference, too."""


@dataclass
class _Block:
    """The trials that an executor has claimed."""

    job: Job
    beside: frozenset[str]
    since: float
    is_given: bool = False


class GridScheduler:
    """Schedule a plan's jobs: to one executor in the plan's order, to several the heaviest problems first.

    A problem stays with the executor that began it, so that compared trials are measured on one device. A problem with
    too many trials for that is cut into blocks. Each executor's first block also has the problem's reference, which
    shows how the devices differ. Jobs timed on the host run at the end, while no other executor works.

    Args:
        jobs: those of one problem follow one another.
        executors: how many share them.
        references: problem and back end → the trial that blocks share.
        is_host: whether a back end's device is the host's own processor.
        claims: claims trials that other processes may claim, too; None if there can be no others.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        executors: int = 1,
        references: Mapping[tuple[Point, str], JobTrial] = MappingProxyType({}),
        is_host: Callable[[str], bool] = lambda backend: False,
        claims: Recorder | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.executors, self.references, self.claims, self.clock = executors, references, claims, clock
        self._jobs = list(jobs)
        self._is_host = is_host if executors > 1 else lambda backend: False
        self._take_up(self._jobs)
        self._begun: dict[Executor, deque[Job]] = {}
        self._blocks: dict[Executor, _Block] = {}
        self._spent_s, self._done = 0.0, 0
        self._alone_at: Executor | None = None
        self._cut: set[tuple[Point, str]] = set()
        self._series: dict[Executor, dict[tuple[Point, str], str]] = defaultdict(dict)
        """The problem and back end that an executor works on → the key of its consecutive blocks."""
        self._told: set[str] = set()
        self._asked: set[str] = set()
        self._awaits_others = False
        """Whether others hold, or have done, trials of these jobs; the database says which."""
        self._refused, self._ask_at = 0, -math.inf

    def _take_up(self, jobs: Iterable[Job]) -> None:
        """Have these jobs to do and no others, those timed on the host apart from the rest."""
        self._alone, shared = deque[Job](), list[Job]()
        for job in jobs:
            (self._alone if job.methods and self._is_host(job.backend) else shared).append(job)
        self._problems = [deque(of_problem) for _, of_problem in groupby(shared, key=lambda job: job.problem)]

    @property
    def done(self) -> bool:
        """Return whether everything is measured, here or elsewhere."""
        return not (self._blocks or self._problems or any(self._begun.values()) or self._alone or self._awaits_others)

    def ask(self, executor: Executor) -> Batch | None:
        """Return the executor's next block, once one of its programs is built."""
        block = self._blocks.get(executor)
        if block is not None and block.is_given:
            self._end_block(executor, block)
            block = None
        if block is None and (block := self._begin_block(executor)) is None:
            return None
        job = block.job
        if not any(executor.is_built(job.backend, trial.identity) for trial in job.trials):
            return Batch(build=(job,))
        block.is_given = True
        return Batch(job, self._find_following(executor), self._series[executor][job_key(job)], block.beside)

    def tell(self, executor: Executor, result: Result) -> None:
        """Keep what need not be done again."""
        self._told.add(result.outcome.identity)

    def release(self, executor: Executor) -> None:
        """Put the open trials of the executor's block, and the rest of its problem, ahead of everything."""
        again = deque(self._begun.pop(executor, ()))
        if block := self._blocks.pop(executor, None):
            left = tuple(trial for trial in block.job.trials if trial.identity not in self._told)
            self._asked -= {trial.identity for trial in left}
            again.extendleft([replace(block.job, trials=left)] if left else [])
        if self._alone_at is executor:
            self._alone.extendleft(again)
            self._alone_at = None
        elif again:
            self._problems.insert(0, again)

    def _end_block(self, executor: Executor, block: _Block) -> None:
        del self._blocks[executor]
        self._spent_s += self.clock() - block.since
        self._done += len(block.job.trials)
        if self.claims:  # trials without an outcome were taken over by others; wait for them
            left = {trial.identity for trial in block.job.trials} - self._told - block.beside
            self._awaits_others |= bool(left)
        if self._alone_at is executor:
            self._alone_at = None

    def _begin_block(self, executor: Executor) -> _Block | None:
        """Claim the next trials for an executor; None if there are none now."""
        while self._alone_at is None:
            if jobs := self._begun.get(executor) or self._begin_problem(executor):
                job = self._cut_block(executor, jobs.popleft())
            elif self._blocks or self._problems:
                return None  # the work of an executor that fails is for the others
            elif self._alone:
                job = self._alone.popleft()
                self._alone_at = executor
            elif self.claims and self._awaits_others and self.clock() >= self._ask_at:
                self._find_left(self.claims, executor)
                continue
            else:
                return None
            block = self._claim(executor, job)
            if block.job.trials:
                self._blocks[executor] = block
                key = job_key(job)
                self._series[executor] = {key: self._series[executor].get(key) or secrets.token_hex(8)}
                self._refused = 0
                return block
            self._alone_at = None
            self._refused += 1
            self._turn_elsewhere(executor)
        return None

    def _claim(self, executor: Executor, job: Job) -> _Block:
        """Return a block of those of a job's trials that the executor may run, and the reference among them."""
        key = job_key(job)
        reference = self.references[key].identity if key in self._cut else ""
        is_again = reference in self._asked
        self._asked.add(reference)
        if self.claims is None:
            return _Block(job, frozenset({reference} if is_again else ()), self.clock())
        wanted = [trial.identity for trial in job.trials if trial.identity != reference or not is_again]
        found = self.claims.claim(executor, wanted)
        self.executors = max(found.stations, 1)
        self._awaits_others |= len(found.granted) < len(wanted)
        granted = found.granted | {reference}  # once: trials may be many
        mine = tuple(trial for trial in job.trials if trial.identity in granted) if found.granted else ()
        return _Block(replace(job, trials=mine), frozenset({reference} - found.granted), self.clock())

    def _turn_elsewhere(self, executor: Executor) -> None:
        """Go on at another place of the list, after others have claimed the next problem here.

        They follow the same list. Of a few processes each stays near its beginning, where the longest problems are; of
        many each goes where it is likely to be alone. At first that is nearly anywhere. Later, ask where.
        """
        count, nearest = len(self._problems), self.executors**2
        places = sorted(random.sample(range(min(max(nearest, NEAR), count)), min(NEAR, count)))
        taken = set[int]()
        if self.claims and (self._refused > 1 or self._done):
            # A problem is free as long as its last trial is: blocks are claimed from its beginning.
            last = {place: self._problems[place][-1].trials[-1].identity for place in places}
            free = self.claims.find_free(executor, list(last.values()))
            taken = {place for place in places if last[place] not in free} if free else set(range(count))
            self._awaits_others |= bool(taken)
            places = [place for place in places if place not in taken]
        start = random.choice(places[:nearest]) if places else 0
        self._problems[:] = [self._problems[at] for at in (*range(start, count), *range(start)) if at not in taken]

    def _find_left(self, claims: Recorder, executor: Executor) -> None:
        """Ask for the rest of the sweep; forget what others have done, and wait for the trials that they hold."""
        asked_at = self.clock()
        if left := claims.list_left(executor):
            free, held = left
            places = sorted({self._homes[identity] for identity in free})  # not every job, which may be many
            self._take_up(
                replace(job, trials=tuple(trial for trial in job.trials if trial.identity in free))
                for job in (self._jobs[place] for place in places)
            )
            self._awaits_others = bool(held)
        took_s = self.clock() - asked_at
        wait_s = max(ASK_AGAIN_S, ASKED_S * self.executors, took_s / ASKING_SHARE)
        self._ask_at = self.clock() + min(wait_s, ASK_AT_LEAST_S)

    @cached_property
    def _homes(self) -> dict[str, int]:
        return {trial.identity: place for place, job in enumerate(self._jobs) for trial in job.trials}

    def _begin_problem(self, executor: Executor) -> deque[Job] | None:
        """Let an executor begin the next problem; jobs without a device here are left to others."""
        for place, jobs in enumerate(self._problems):
            mine = deque(job for job in jobs if executor.can_do(job.backend))
            if mine:
                others = deque(job for job in jobs if not executor.can_do(job.backend))
                self._problems[place : place + 1] = [others] if others else []
                self._begun[executor] = mine
                return mine
        self._begun.pop(executor, None)
        return None

    def _find_following(self, executor: Executor) -> tuple[Job, ...]:
        """Return what an executor is likely to measure after its block, to be built meanwhile."""
        of_problem = [self._begun.get(executor, ()), *self._problems[:1]]
        following = [job for jobs in of_problem for job in jobs if executor.can_do(job.backend)]
        return tuple(replace(job, trials=job.trials[: job.measure.rotation]) for job in following[:1])

    def _cut_block(self, executor: Executor, job: Job) -> Job:
        """Return the part of a job that one executor should run now, and keep the rest for later.

        An executor's consecutive blocks of a problem are one series and need the reference only once.
        """
        key = job_key(job)
        reference = self.references.get(key)
        if reference is None or (key not in self._cut and len(job.trials) <= LEAST_CUT):
            return job
        open_trials = sum(len(each.trials) for jobs in self._problems for each in jobs) + len(job.trials)
        least = int(LEAST_BLOCK_S * self._done / self._spent_s) if self._spent_s else 1
        size = max(math.ceil(open_trials / (BLOCKS_AN_EXECUTOR * self.executors)), least)
        if self.executors > 1 and len(job.trials) > size:
            self._cut.add(key)
            self._problems.insert(0, deque([replace(job, trials=job.trials[size:])]))
            job = replace(job, trials=job.trials[:size])
        if key in self._cut:
            others = tuple(trial for trial in job.trials if trial.identity != reference.identity)
            is_due = len(others) < len(job.trials) and reference.identity not in self._asked
            trials = (reference, *others) if is_due or key not in self._series[executor] else others
            job = replace(job, trials=trials, is_block=True)
        return job


class EachScheduler(GridScheduler):
    """Give every executor all jobs of a plan. Jobs timed on the host go to one alone, at the end.

    The sweep goes by the results of the first executor that is not lost.
    """

    def __init__(self, jobs: Iterable[Job], executors: Sequence[Executor]) -> None:
        super().__init__(jobs, len(executors), is_host=executors[0].is_host)
        cards, self._problems = [job for of_problem in self._problems for job in of_problem], []
        self._begun = {each: deque(job for job in cards if each.can_do(job.backend)) for each in executors}
        self._left = list(executors)

    def ask(self, executor: Executor) -> Batch | None:
        """Return the built trials of the executor's next job."""
        batch = super().ask(executor)
        if batch is None or batch.job is None or executor in (self._left[0], self._alone_at):
            return batch
        return replace(batch, beside=frozenset(trial.identity for trial in batch.job.trials))

    def release(self, executor: Executor) -> None:
        """Leave a lost card's jobs undone, but for those on the host: no other card can run them in its place."""
        self._left.remove(executor)
        if self._alone_at is not executor:
            self._blocks.pop(executor, None)
        self._begun.pop(executor, None)
        super().release(executor)


def open_grid(recorder: Recorder, trials: Sequence[Trial]) -> Scheduler:
    """Return the scheduler of a sweep's open trials."""
    prepared, executors = recorder.prepared, recorder.executors
    if prepared.on_each_card:
        return EachScheduler(prepared.list_jobs(trials), executors)
    if len(executors) > 1:
        # What takes longest does not come last: at the end the others would wait for it.
        weights = Counter[Point]()
        for trial in trials:
            weights[trial.problem] += trial.useful_bytes or 1
        trials = sorted(trials, key=lambda trial: -weights[trial.problem])
    claims = recorder if prepared.is_shared else None
    jobs = prepared.list_jobs(trials)
    return GridScheduler(jobs, len(executors), prepared.find_shared(), executors[0].is_host, claims)
