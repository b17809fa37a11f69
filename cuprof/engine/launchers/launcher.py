"""The contract of launchers, and which there are.

A launcher starts the same command several times. The jobs share the sweep by claims in the database, so a launcher
knows nothing of trials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuprof.config.model import LaunchConfig
from cuprof.core.plugins import load_plugin

GROUP = "cuprof.launchers"
"""Packages add subclasses of `Launcher` as entry points of this group."""
LAUNCHERS = {
    "slurm": "cuprof.engine.launchers.slurm:Slurm",
    "ray": "cuprof.engine.launchers.ray:Ray",
    "joblib": "cuprof.engine.launchers.joblib:Joblib",
}
NUMBER = "{job}"
"""Placeholder in a command for the number of the job."""


@dataclass(frozen=True)
class Work:
    """The command that every job runs.

    Attributes:
        words: what follows Python's executable; `NUMBER` in a word becomes the job's number.
        files: for the launcher's own files and the jobs' output, readable by their owner alone.
        config: how many jobs, and what each needs.
    """

    words: tuple[str, ...]
    folder: Path
    files: Path
    config: LaunchConfig

    def words_of(self, number: int) -> list[str]:
        """Return the words of one job."""
        return [word.replace(NUMBER, str(number)) for word in self.words]

    def log_of(self, number: int) -> Path:
        """Return the file for what one job prints."""
        return self.files / f"job-{number}.log"


@dataclass(frozen=True)
class JobState:
    """How a job is.

    Attributes:
        state: "waiting", "running", "ended" by itself, or "lost" where something else ended it.
        exit_code: of a job that ended; None where that is not known.
        reason: why it waits or was lost, in the launcher's words.
    """

    state: Literal["waiting", "running", "ended", "lost"]
    exit_code: int | None = None
    reason: str = ""

    @classmethod
    def of(cls, code: int) -> JobState:
        """Return the state of a process that has ended, by a signal where its code is negative."""
        return cls("ended", code) if code >= 0 else cls("lost", reason=f"signal {-code}")


class Launcher(ABC):
    """Start the jobs of one command, say how each is, and stop them."""

    def __init__(self, work: Work) -> None:
        self.work = work

    @abstractmethod
    def start(self) -> None:
        """Start all jobs.

        Raises:
            UsageError: what was asked for does not exist (partition, resource, address), so no job was started.
            MissingDependencyError: the launcher's library or program is not installed.
        """

    @abstractmethod
    def poll(self) -> list[JobState]:
        """Return how each job is, by its number."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the jobs that have not ended; called once, also when all have."""

    def read_output(self, number: int) -> str:
        """Return what a job has printed, empty where that is not known here."""
        log = self.work.log_of(number)
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def open_launcher(work: Work) -> Launcher:
    """Return the launcher that the configuration names.

    Raises:
        UnknownNameError: no launcher has this name.
    """
    launcher: Launcher = load_plugin(GROUP, work.config.name, LAUNCHERS, "launcher")(work)
    return launcher
