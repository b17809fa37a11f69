"""What an executor is given to do, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from cuprof.core.records import Outcome
from cuprof.worker.messages import Job


@dataclass(frozen=True)
class Batch:
    """What an executor does next: begin to build programs, then measure trials.

    Args:
        job: the trials to measure; None to wait until a program is built.
        build: jobs whose programs to build in the background.
        series: equal for everything that is measured of one problem one after another.
        beside: identities whose results are stored beside those that the sweep goes by.
    """

    job: Job | None = None
    build: tuple[Job, ...] = ()
    series: str = ""
    beside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Result:
    """A trial of a batch has ended."""

    batch: Batch
    outcome: Outcome


@dataclass(frozen=True)
class Lost:
    """The executor's device cannot be opened; the outcomes are for a sweep that has no other."""

    batch: Batch
    reason: str
    outcomes: tuple[Outcome, ...]
