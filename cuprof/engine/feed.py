"""Feed stations with jobs: those of a plan, or those that a search decides on as results arrive."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from cuprof.core.point import Point
from cuprof.core.records import Outcome, Trial
from cuprof.engine.jobs import find_references, job_key, list_jobs
from cuprof.engine.planning import Prepared
from cuprof.engine.station import Station
from cuprof.worker.messages import Job, JobTrial

if TYPE_CHECKING:
    from cuprof.store.stations import Claim

BLOCKS_A_STATION = 1.25
"""A block is the remaining work divided by this many times the stations, so blocks get smaller towards the end (guided
self-scheduling: Polychronopoulos & Kuck, IEEE Transactions on Computers C-36, 1987). A larger factor spends more time
on starting blocks; a smaller one makes fast stations wait for slow ones."""
LEAST_BLOCK_S = 1.0
"""Make a block last at least about this long, judging by the trials so far: a station needs half a second to start
one."""
ASK_AGAIN_S = 1.0
"""Ask this often whether other processes have done, or lost, the trials that they claimed."""
LEAST_CUT = 32
"""Do not split a problem with fewer trials than this: each station that takes part measures the reference, too."""


class Later(Enum):
    """Answer a station that there is nothing now, but that there may be."""

    LATER = "later"


LATER = Later.LATER
Claiming = Callable[[Station, Sequence[str]], "Claim"]
"""Claim trials for a station; see `Store.claim`."""


class Feed(Protocol):
    """Hand jobs to free stations, and receive the outcomes; always called from one thread.

    A feed may choose its next job by earlier outcomes: it receives each one, already durable in the store, before the
    same station gets another job. A station that is answered `LATER` asks again soon.
    """

    def take(self, station: Station) -> Job | Later | None:
        """Return the station's next job, `LATER`, or None where there will never be one for it again."""

    def tell(self, station: Station, outcome: Outcome) -> None:
        """Receive the outcome of one trial of the station's job, but not of trials measured in addition to it."""

    def finish(self, station: Station) -> None:
        """Follow up the outcomes of the station's job, while its devices are reserved and idle."""

    def give_back(self, station: Station, job: Job) -> None:
        """Take back a job's unfinished trials; the station will take no further job."""


class PlannedFeed:
    """Feed the jobs of a plan: to one station in the plan's order, to several the heaviest problems first.

    A problem stays with the station that began it, so that compared trials are measured on one device. A problem with
    too many trials for that is cut into blocks. Each station's first block also has the problem's reference, which
    shows how the stations' devices differ. Jobs timed on the host run at the end, while no other station works.

    Args:
        jobs: those of one problem follow one another.
        stations: how many share them.
        references: problem and back end → the trial that blocks share.
        is_host: whether a back end's device is the host's own processor.
        claim: claims trials that other processes may claim, too; None if there can be no others.
        clock: seconds.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        stations: int = 1,
        references: Mapping[tuple[Point, str], JobTrial] = MappingProxyType({}),
        is_host: Callable[[str], bool] = lambda backend: False,
        claim: Claiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stations, self.references, self.claim, self.clock = stations, references, claim, clock
        shared: list[Job] = []
        self._alone: deque[Job] = deque()
        for job in jobs:
            (self._alone if stations > 1 and job.methods and is_host(job.backend) else shared).append(job)
        self._problems = [deque(of_problem) for _, of_problem in groupby(shared, key=lambda job: job.problem)]
        self._begun: dict[Station, deque[Job]] = {}
        self._held: dict[Station, Job] = {}
        self._since: dict[Station, float] = {}
        self._spent_s, self._done = 0.0, 0
        self._alone_at: Station | None = None
        self._cut: set[tuple[Point, str]] = set()
        self._last: dict[Station, tuple[Point, str]] = {}
        self._told: set[str] = set()
        self._asked: set[str] = set()
        self._elsewhere: dict[str, Job] = {}
        self._asked_at = 0.0

    def take(self, station: Station) -> Job | Later | None:
        """Return the next job of the station's problem, or the first of the next problem that it has a device for."""
        if done := self._held.pop(station, None):
            self._spent_s += self.clock() - self._since[station]
            self._done += len(done.trials)
            if self.claim:  # trials without an outcome were taken over by others; wait for them
                gone = {each.identity: replace(done, trials=(each,)) for each in done.trials}
                self._elsewhere |= {identity: job for identity, job in gone.items() if identity not in self._told}
        if self._alone_at is station:
            self._alone_at = None
        while self._alone_at is None:
            if jobs := self._begun.get(station) or self._begin(station):
                job = self._cut_block(station, jobs.popleft())
            elif self._held or self._problems:
                return LATER  # the work of a station that fails is for the others
            elif self._alone:
                job = self._alone.popleft()
                self._alone_at = station
            elif self._elsewhere:
                if not self._ask_again(station):
                    return LATER
                continue
            else:
                return None
            claimed = self._claim(station, job)
            if claimed.trials:
                self._held[station], self._since[station] = claimed, self.clock()
                self._last[station] = job_key(job)
                return claimed
            self._alone_at = None
        return LATER

    def tell(self, station: Station, outcome: Outcome) -> None:
        """Keep what needs not be done again."""
        self._told.add(outcome.identity)

    def finish(self, station: Station) -> None:
        """Do nothing: a plan does not depend on outcomes."""

    def give_back(self, station: Station, job: Job) -> None:
        """Put the job's open trials, and the rest of its problem, ahead of everything."""
        again = deque(self._begun.pop(station, ()))
        left = tuple(trial for trial in self._held.pop(station).trials if trial.identity not in self._told)
        self._asked -= {trial.identity for trial in left}
        if left:
            again.appendleft(replace(job, trials=left))
        if self._alone_at is station:
            self._alone.extendleft(again)
            self._alone_at = None
        elif again:
            self._problems.insert(0, again)

    def _claim(self, station: Station, job: Job) -> Job:
        """Return the job with the trials that the station may run, and the reference among them."""
        key = job_key(job)
        reference = self.references[key].identity if key in self._cut else ""
        if self.claim is None:
            self._asked.add(reference)
            return job
        wanted = [trial for trial in job.trials if trial.identity != reference or reference not in self._asked]
        self._asked.add(reference)
        found = self.claim(station, [trial.identity for trial in wanted])
        self.stations = max(found.stations, 1)
        known, granted = found.granted | found.done.keys(), found.granted | {reference}  # once: trials may be many
        self._elsewhere |= {
            trial.identity: replace(job, trials=(trial,)) for trial in wanted if trial.identity not in known
        }
        mine = tuple(trial for trial in job.trials if trial.identity in granted) if found.granted else ()
        return replace(job, trials=mine)

    def _ask_again(self, station: Station) -> bool:
        """Ask which trials other processes have finished or lost; return whether that changed anything."""
        assert self.claim is not None
        if self.clock() - self._asked_at < ASK_AGAIN_S:
            return False
        self._asked_at = self.clock()
        before = len(self._elsewhere)
        found = self.claim(station, list(self._elsewhere))
        free = [job for identity, job in self._elsewhere.items() if identity in found.granted]
        for identity in found.granted | found.done.keys():
            del self._elsewhere[identity]
        for _, jobs in groupby(free, key=job_key):
            parts = list(jobs)
            trials = tuple(trial for job in parts for trial in job.trials)
            self._problems.append(deque([replace(parts[0], trials=trials)]))
        return len(self._elsewhere) < before

    def _begin(self, station: Station) -> deque[Job] | None:
        """Let a station begin the next problem; jobs without a device here are left to others."""
        for place, jobs in enumerate(self._problems):
            mine = deque(job for job in jobs if station.can_do(job.backend))
            if mine:
                others = deque(job for job in jobs if not station.can_do(job.backend))
                self._problems[place : place + 1] = [others] if others else []
                self._begun[station] = mine
                return mine
        self._begun.pop(station, None)
        return None

    def _cut_block(self, station: Station, job: Job) -> Job:
        """Return the part of a job that one station should run now, and keep the rest for later.

        A station's consecutive blocks of a problem are one series and need the reference only once.
        """
        open_trials = sum(len(each.trials) for jobs in self._problems for each in jobs) + len(job.trials)
        least = int(LEAST_BLOCK_S * self._done / self._spent_s) if self._spent_s else 1
        size = max(math.ceil(open_trials / (BLOCKS_A_STATION * self.stations)), least)
        key = job_key(job)
        reference = self.references.get(key)
        is_large = len(job.trials) > size if key in self._cut else len(job.trials) > max(LEAST_CUT, size)
        if self.stations > 1 and reference is not None and is_large:
            self._cut.add(key)
            rest = job.trials[size:]
            self._problems.insert(0, deque([replace(job, trials=rest)]))
            # Whoever takes the next block finds its first sources compiled, in the cache that all share.
            job = replace(job, trials=job.trials[:size], ahead=rest[: job.measure.rotation])
        if key in self._cut and reference is not None:
            others = tuple(trial for trial in job.trials if trial.identity != reference.identity)
            is_due = len(others) < len(job.trials) and reference.identity not in self._asked
            trials = (reference, *others) if is_due or self._last.get(station) != key else others
            job = replace(job, trials=trials, is_block=True)
        return job


class EachFeed:
    """Feed every station all jobs of a plan. Jobs timed on the host go to the first station alone, at the end.

    Args:
        jobs: in the plan's order.
        stations: those that do them.
        is_host: whether a back end's device is the host's own processor.
    """

    def __init__(self, jobs: Iterable[Job], stations: Sequence[Station], is_host: Callable[[str], bool]) -> None:
        every = list(jobs)
        cards = [job for job in every if not is_host(job.backend)]
        self._open = {station: deque(job for job in cards if station.can_do(job.backend)) for station in stations}
        self._alone = deque(job for job in every if is_host(job.backend))

    def take(self, station: Station) -> Job | Later | None:
        """Return the station's next job."""
        if self._open.get(station):
            return self._open[station].popleft()
        self._open.pop(station, None)
        if self._alone and all(other.is_lost for other in self._open):
            self._open[station] = deque()  # until it asks again, others wait
            return self._alone.popleft()
        return LATER if self._alone else None

    def tell(self, station: Station, outcome: Outcome) -> None:
        """Nothing depends on it."""

    def finish(self, station: Station) -> None:
        """Do nothing: a plan does not depend on outcomes."""

    def give_back(self, station: Station, job: Job) -> None:
        """Leave a lost card's jobs undone: no other card can run them in its place."""
        self._open.pop(station, None)


def plan_feed(prepared: Prepared, trials: Sequence[Trial], stations: Sequence[Station], claim: Claiming | None) -> Feed:
    """Return the feed that runs trials in the order of the plan; of several stations see `PlannedFeed`."""
    seed, is_host = prepared.draw_seed(), stations[0].is_host
    if prepared.on_each_card:
        return EachFeed(list_jobs(prepared, trials, seed), stations, is_host)
    if len(stations) > 1:
        # What takes longest does not come last: at the end the others would wait for it.
        weights = Counter[Point]()
        for trial in trials:
            weights[trial.problem] += trial.useful_bytes or 1
        trials = sorted(trials, key=lambda trial: -weights[trial.problem])
    jobs = list_jobs(prepared, trials, seed)
    return PlannedFeed(jobs, len(stations), find_references(prepared), is_host, claim)
