"""Run everything that is planned: in the order of the plan, or shared by several executors and processes."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.engine.dispatcher import Scheduler
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.engine.jobs import find_references, job_key, list_jobs
from cuprof.engine.recorder import Recorder
from cuprof.store.stations import Claim
from cuprof.worker.messages import Job, JobTrial

BLOCKS_AN_EXECUTOR = 1.25
"""A block is the remaining work divided by this many times the executors, so blocks get smaller towards the end (guided
self-scheduling: Polychronopoulos & Kuck, IEEE Transactions on Computers C-36, 1987). A larger factor spends more time
on starting blocks; a smaller one makes fast executors wait for slow ones."""
LEAST_BLOCK_S = 1.0
"""Make a block last at least about this long, judging by the trials so far: an executor needs half a second to start
one."""
ASK_AGAIN_S = 1.0
"""Ask this often whether other processes have done, or lost, the trials that they claimed."""
LEAST_CUT = 32
"""Do not split a problem with fewer trials than this: each executor that takes part measures the reference, too."""

Claiming = Callable[[Executor, Sequence[str]], Claim]
"""Claim trials for an executor; see `Store.claim`."""


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
        claim: claims trials that other processes may claim, too; None if there can be no others.
        clock: seconds.
    """

    tolerates_failures = False

    def __init__(
        self,
        jobs: Iterable[Job],
        executors: int = 1,
        references: Mapping[tuple[Point, str], JobTrial] = MappingProxyType({}),
        is_host: Callable[[str], bool] = lambda backend: False,
        claim: Claiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.executors, self.references, self.claim, self.clock = executors, references, claim, clock
        shared: list[Job] = []
        self._alone: deque[Job] = deque()
        for job in jobs:
            (self._alone if executors > 1 and job.methods and is_host(job.backend) else shared).append(job)
        self._problems = [deque(of_problem) for _, of_problem in groupby(shared, key=lambda job: job.problem)]
        self._begun: dict[Executor, deque[Job]] = {}
        self._blocks: dict[Executor, _Block] = {}
        self._spent_s, self._done = 0.0, 0
        self._alone_at: Executor | None = None
        self._cut: set[tuple[Point, str]] = set()
        self._last: dict[Executor, tuple[Point, str]] = {}
        self._told: set[str] = set()
        self._asked: set[str] = set()
        self._elsewhere: dict[str, Job] = {}
        self._asked_at = 0.0

    @property
    def done(self) -> bool:
        """Return whether everything is measured, here or elsewhere."""
        return not (self._blocks or self._problems or any(self._begun.values()) or self._alone or self._elsewhere)

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
        series = executor.find_series(job.problem, job.backend)
        return Batch(job, self._find_following(executor), series, block.beside)

    def tell(self, executor: Executor, result: Result) -> None:
        """Keep what need not be done again."""
        self._told.add(result.outcome.identity)

    def release(self, executor: Executor, batch: Batch) -> None:
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
        if self.claim:  # trials without an outcome were taken over by others; wait for them
            self._elsewhere |= {
                trial.identity: replace(block.job, trials=(trial,))
                for trial in block.job.trials
                if trial.identity not in self._told and trial.identity not in block.beside
            }
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
            elif not self._elsewhere or not self._ask_again(executor):
                return None
            else:
                continue
            block = self._claim(executor, job)
            if block.job.trials:
                self._blocks[executor] = block
                self._last[executor] = job_key(job)
                return block
            self._alone_at = None
        return None

    def _claim(self, executor: Executor, job: Job) -> _Block:
        """Return a block of those of a job's trials that the executor may run, and the reference among them."""
        key = job_key(job)
        reference = self.references[key].identity if key in self._cut else ""
        is_again = reference in self._asked
        self._asked.add(reference)
        if self.claim is None:
            return _Block(job, frozenset({reference} if is_again else ()), self.clock())
        wanted = [trial for trial in job.trials if trial.identity != reference or not is_again]
        found = self.claim(executor, [trial.identity for trial in wanted])
        self.executors = max(found.stations, 1)
        known, granted = found.granted | found.done.keys(), found.granted | {reference}  # once: trials may be many
        self._elsewhere |= {
            trial.identity: replace(job, trials=(trial,)) for trial in wanted if trial.identity not in known
        }
        mine = tuple(trial for trial in job.trials if trial.identity in granted) if found.granted else ()
        return _Block(replace(job, trials=mine), frozenset({reference} - found.granted), self.clock())

    def _ask_again(self, executor: Executor) -> bool:
        """Ask which trials other processes have finished or lost; return whether that changed anything."""
        if self.claim is None or self.clock() - self._asked_at < ASK_AGAIN_S:
            return False
        self._asked_at = self.clock()
        before = len(self._elsewhere)
        found = self.claim(executor, list(self._elsewhere))
        free = [job for identity, job in self._elsewhere.items() if identity in found.granted]
        for identity in found.granted | found.done.keys():
            del self._elsewhere[identity]
        for _, jobs in groupby(free, key=job_key):
            parts = list(jobs)
            trials = tuple(trial for job in parts for trial in job.trials)
            self._problems.append(deque([replace(parts[0], trials=trials)]))
        return len(self._elsewhere) < before

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
        open_trials = sum(len(each.trials) for jobs in self._problems for each in jobs) + len(job.trials)
        least = int(LEAST_BLOCK_S * self._done / self._spent_s) if self._spent_s else 1
        size = max(math.ceil(open_trials / (BLOCKS_AN_EXECUTOR * self.executors)), least)
        key = job_key(job)
        reference = self.references.get(key)
        is_large = len(job.trials) > size if key in self._cut else len(job.trials) > max(LEAST_CUT, size)
        if self.executors > 1 and reference is not None and is_large:
            self._cut.add(key)
            self._problems.insert(0, deque([replace(job, trials=job.trials[size:])]))
            job = replace(job, trials=job.trials[:size])
        if key in self._cut and reference is not None:
            others = tuple(trial for trial in job.trials if trial.identity != reference.identity)
            is_due = len(others) < len(job.trials) and reference.identity not in self._asked
            trials = (reference, *others) if is_due or self._last.get(executor) != key else others
            job = replace(job, trials=trials, is_block=True)
        return job


class EachScheduler:
    """Give every executor all jobs of a plan. Jobs timed on the host go to the first one alone, at the end.

    The sweep goes by the results of the first executor that is not lost.

    Args:
        jobs: in the plan's order.
        executors: those that do them.
    """

    tolerates_failures = False

    def __init__(self, jobs: Iterable[Job], executors: Sequence[Executor]) -> None:
        every, is_host = list(jobs), executors[0].is_host
        cards = [job for job in every if not is_host(job.backend)]
        self._plans = {executor: GridScheduler(cards) for executor in executors}
        self._alone = GridScheduler(job for job in every if is_host(job.backend))

    @property
    def done(self) -> bool:
        """Return whether every executor has measured everything."""
        return all(plan.done for plan in self._plans.values()) and self._alone.done

    def ask(self, executor: Executor) -> Batch | None:
        """Return the built trials of the executor's next job."""
        first = next(iter(self._plans))
        batch = self._plans[executor].ask(executor)
        if batch is None and executor is first and all(plan.done for plan in self._plans.values()):
            return self._alone.ask(executor)
        if batch is None or batch.job is None or executor is first:
            return batch
        return replace(batch, beside=frozenset(trial.identity for trial in batch.job.trials))

    def tell(self, executor: Executor, result: Result) -> None:
        """Keep what need not be done again; the executors' plans do not depend on one another."""
        self._plans[executor].tell(executor, result)
        self._alone.tell(executor, result)

    def release(self, executor: Executor, batch: Batch) -> None:
        """Leave a lost card's jobs undone, but for those on the host: no other card can run them in its place."""
        del self._plans[executor]
        self._alone.release(executor, batch)


def open_grid(recorder: Recorder, trials: Sequence[Trial]) -> Scheduler:
    """Return the scheduler of a sweep's open trials."""
    prepared, executors = recorder.prepared, recorder.executors
    seed = prepared.draw_seed()
    if prepared.on_each_card:
        return EachScheduler(list_jobs(prepared, trials, seed), executors)
    if len(executors) > 1:
        # What takes longest does not come last: at the end the others would wait for it.
        weights = Counter[Point]()
        for trial in trials:
            weights[trial.problem] += trial.useful_bytes or 1
        trials = sorted(trials, key=lambda trial: -weights[trial.problem])
    claim = recorder.claim if prepared.is_shared else None
    jobs = list_jobs(prepared, trials, seed)
    return GridScheduler(jobs, len(executors), find_references(prepared), executors[0].is_host, claim)
