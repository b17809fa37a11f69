"""Where stations get their work from: the jobs of a plan, or of whatever else decides as results come in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import groupby
from typing import Protocol

from cuprof.engine.planning import Prepared
from cuprof.engine.station import Station
from cuprof.point import Point
from cuprof.records import Outcome, Trial
from cuprof.worker.messages import Job, JobTrial


class Later(Enum):
    """Answer a station that there is nothing now, but that there may be."""

    LATER = "later"


LATER = Later.LATER


class Feed(Protocol):
    """Hand jobs to stations that are free, and hear what came of them; always called from one thread.

    A feed may make its next job of what it was told: each outcome is told, durable in the store already, before the
    same station is given another job. A station that is answered `LATER` asks again soon.
    """

    def take(self, station: Station) -> Job | Later | None:
        """Return the station's next job, `LATER`, or None where there will never be one for it again."""

    def tell(self, station: Station, outcome: Outcome) -> None:
        """Take what came of one trial of the station's job."""

    def give_back(self, station: Station, job: Job) -> None:
        """Take back the trials of a job that nothing was told of; the station will take no further one."""


class PlannedFeed:
    """Feed the jobs of a plan in its order; a problem that a station has begun stays with it.

    Args:
        jobs: those of one problem follow one another.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._problems = deque(deque(of_problem) for _, of_problem in groupby(jobs, key=lambda job: job.problem))
        self._begun: dict[Station, deque[Job]] = {}
        self._told: set[str] = set()

    def take(self, station: Station) -> Job | Later | None:
        """Return the next job of the station's problem, or the first one of the next problem."""
        if not self._begun.get(station):
            self._begun.pop(station, None)
            if not self._problems:
                return LATER if self._begun else None  # the work of a station that fails is for the others
            self._begun[station] = self._problems.popleft()
        return self._begun[station].popleft()

    def tell(self, station: Station, outcome: Outcome) -> None:
        """Keep what needs not be done again."""
        self._told.add(outcome.identity)

    def give_back(self, station: Station, job: Job) -> None:
        """Put the job's open trials, and what else there was of its problem, ahead of everything."""
        left = tuple(trial for trial in job.trials if trial.identity not in self._told)
        again = deque([replace(job, trials=left)] if left else [])
        again.extend(self._begun.pop(station, ()))
        if again:
            self._problems.appendleft(again)


def list_jobs(prepared: Prepared, trials: Sequence[Trial], seed: int) -> Iterator[Job]:
    """Yield a job for each problem and back end, in the order of the plan.

    Where the configuration asks for it, each variant that runs its own code in the worker has a job of its own.
    """
    for problem, of_problem in groupby(trials, key=lambda trial: trial.problem):
        members = list(of_problem)
        for backend in dict.fromkeys(trial.backend for trial in members):
            yield from make_jobs(prepared, problem, [trial for trial in members if trial.backend == backend], seed)


def make_jobs(prepared: Prepared, problem: Point, trials: Sequence[Trial], seed: int) -> Iterator[Job]:
    """Yield the job, or where variants are isolated the jobs, of trials of one problem on one back end."""
    isolate = prepared.config.limits.isolate
    folder = prepared.family.folder
    if folder is None:
        raise ValueError("the family was not loaded from a folder")
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.variant if isolate and trial.kind != "kernel" else "", []).append(trial)
    for process, members in groups.items():
        backend = members[0].backend
        yield Job(
            family_folder=folder,
            backend=backend,
            problem=problem,
            trials=tuple(
                JobTrial(trial.identity, trial.variant, trial.tunables, trial.source_text) for trial in members
            ),
            seed=seed,
            measure=prepared.config.measure,
            methods=prepared.methods[backend],
            extension=prepared.extension,
            isolated=bool(process),
        )
