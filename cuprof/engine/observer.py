"""Report the engine's progress: the terminal is one listener, a test is another."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cuprof.core.records import Outcome, Trial


class Observer:
    """Receive a sweep's progress, in order, from one thread; override the events of interest."""

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        """Receive the sweep's number of trials, None for a search, and the identities of those already finished.

        For a search these are the trials that it tried before it was interrupted.
        """

    def trial_started(self, trial: Trial, phase: str) -> None:
        """Take the trial that is worked on now, and the step: "inputs", "build", "check", "time", "profile"."""

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Report a stored outcome of a trial; a search reports each look at a trial."""

    def done_elsewhere(self, count: int) -> None:
        """Take how many trials more another process that shares the sweep has done; their outcomes are stored."""

    def shared(self, done: int, planned: int, at_work: Sequence[str]) -> None:
        """Take how many trials of the sweep all processes have done, and a line on each that is at work."""

    def note(self, text: str) -> None:
        """Take one line that the user should read; of a database that is away it comes from any thread."""

    def finished(self, sweep_id: int) -> None:
        """Take the end of the sweep."""
