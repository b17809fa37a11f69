"""What an executor is given to do, and the events that its thread tells the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass

from cuprof.core.records import Outcome
from cuprof.worker.messages import Job
from cuprof.worker.status_page import Phase


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
class Started:
    """A trial enters a phase."""

    identity: str
    phase: Phase


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


@dataclass(frozen=True)
class Note:
    """A line that the user should read."""

    text: str


@dataclass(frozen=True)
class Shared:
    """How far the sweep is with what other processes have done, and a line on each executor of theirs."""

    done: int
    planned: int
    at_work: tuple[str, ...]


@dataclass(frozen=True)
class Idle:
    """The batch has been carried out."""


@dataclass(frozen=True)
class Failed:
    """The executor's thread has raised an error, which ends the sweep."""

    error: BaseException


Event = Started | Result | Lost | Note | Shared | Idle | Failed
