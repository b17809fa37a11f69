"""What the engine, the profiled process and the pages ask of a profiler; `cuprof.ncu.registry` names them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import Artifact, Conditions, CounterValue, LaunchRecord, Profile, Trial
from cuprof.families.candidate import Extension
from cuprof.interop.origins import AnyOrigin
from cuprof.ncu.metric import Catalog

Launches = Mapping[str | None, tuple[LaunchRecord, ...]]
"""What a report holds: launches by the identity of the trial whose range encloses them, or None, in the order they ran,
which their `ordinal` counts from 0."""


@dataclass(frozen=True)
class Request:
    """Say what is to be collected, as far as it decides what need not be collected again.

    Args:
        metrics: what was asked for, as stored with each profile: metric names, or the profiler's names of whole groups.
        whole: whole groups are asked for, whose metrics are known only when they are there.
    """

    metrics: tuple[str, ...]
    conditions: Conditions
    whole: bool = False


@dataclass(frozen=True)
class Source:
    """Say where trials come from that are no project's, and where reports of them go.

    Args:
        origin: of their family.
        extension: what is added to it.
        artifacts: folder that takes the reports.
    """

    origin: AnyOrigin
    extension: Extension | None
    artifacts: Path


@dataclass(frozen=True)
class BatchResult:
    """What profiling a batch came to.

    Attributes:
        profiles: of the trials that are decided, in the order of the batch.
        remaining: trials to be profiled again, because another one brought the process down.
        notes: what the user should read, a line each: metrics that were left out and why.
        interrupted: a KeyboardInterrupt arrived meanwhile.
    """

    profiles: tuple[Profile, ...] = ()
    remaining: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False


class Profiler(ABC):
    """A program that reads hardware counters, one object for all of a process; nothing runs until it is asked to.

    Attributes:
        name: in the registry and in the tasks of profiled processes.
        title: for people.
        backends: whose trials it can read counters of.
        catalog: what is known of its metrics.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    backends: ClassVar[tuple[str, ...]]
    catalog: ClassVar[Catalog]

    @abstractmethod
    def describe_program(self) -> str:
        """Return the program's release and where it is; raises `ProfilerError` where none is here that works."""

    @abstractmethod
    def make_request(self, config: SweepConfig) -> Request:
        """Return what a configuration asks for, on any machine.

        Raises:
            ConfigError: nothing is to be collected.
        """

    @abstractmethod
    def list_matches(self, requested: Sequence[str], stored: Collection[str]) -> list[str]:
        """Return the metrics that stand for those asked for, since a pattern or a short name stands for several.

        Args:
            requested: as in `Request.metrics`; names of whole groups match nothing.
            stored: the metrics that there are; what is asked for by its full name is listed even if it is none of them.
        """

    @abstractmethod
    def check(self, config: SweepConfig, project: Project) -> None:
        """See that a collection can work here, running none.

        Raises:
            ProfilerError, ConfigError: it cannot.
        """

    @abstractmethod
    def open(self, config: SweepConfig, project: Project, source: Source | None = None) -> Collector:
        """Return what profiles trials as configured, its program on the way up already where that takes time.

        Args:
            source: of all the trials, where that is not the project.

        Raises:
            ProfilerError: there is no program, or its reports cannot be kept.
            ConfigError: nothing is to be collected.
        """

    @abstractmethod
    def mark(self, identity: str) -> AbstractContextManager[None]:
        """Return what encloses the execution of a trial in the profiled process, so that its launches are known."""

    @abstractmethod
    def read_report(self, path: Path) -> Launches:
        """Read a report file, made here or elsewhere; raises `ProfilerError` where it cannot be read."""

    @abstractmethod
    def find_conditions(self, path: Path) -> Conditions:
        """Return how a report's launches were profiled, by what it says itself, else by the profiler's defaults."""

    @abstractmethod
    def keep_report(self, path: Path, folder: Path) -> Artifact:
        """Copy a report into the artifacts folder; raises `ProfilerError` where that takes no files."""

    @abstractmethod
    def roll_up(self, launches: Sequence[LaunchRecord]) -> tuple[CounterValue, ...]:
        """Return one value a metric for a trial of these launches."""


class Collector(ABC):
    """A profiler set up for one collection; use as a context manager, which ends what still runs.

    Attributes:
        request: what is asked for.
        batch: trials given to one profiled process.
    """

    profiler: Profiler
    request: Request
    batch: int

    @property
    @abstractmethod
    def missing(self) -> Mapping[str, str]:
        """Return the metrics asked for that turned out not to exist here, and why."""

    @abstractmethod
    def check(self) -> None:
        """Raise `ProfilerError` where the program cannot work."""

    @abstractmethod
    def profile(self, trials: Sequence[Trial], on_trial: Callable[[str], None] = lambda _: None) -> BatchResult:
        """Profile trials of one family and device that are known to be right, each executed once.

        Every call decides a trial, leaves a metric out, was interrupted, or raises.

        Args:
            on_trial: called now and then with the identity of the trial that is worked on.

        Raises:
            ProfilerError: it failed for a reason that is no trial's own (permission, disk, another profiler).
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End what was started and is not needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
