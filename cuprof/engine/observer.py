"""What the engine tells while it works; the terminal is one that listens, a test another."""

from __future__ import annotations

from collections.abc import Collection

from cuprof.core.records import Outcome, Trial


class Observer:
    """Hear of a sweep's progress, in order, from one thread; what a listener does not care for it leaves as it is."""

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        """Take the number of trials of the sweep, None for a search, and the identities of those that are done already.

        Those of a search are what it had tried before it was interrupted.
        """

    def trial_started(self, trial: Trial, phase: str) -> None:
        """Take the trial that is worked on now, and the step: "inputs", "build", "check", "time", "profile"."""

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Report a trial's outcome, which is already stored. A search may look at a trial again; each look is
        reported."""

    def done_elsewhere(self, count: int) -> None:
        """Take how many trials more another process that shares the sweep has done; their outcomes are stored."""

    def note(self, text: str) -> None:
        """Take one line that the user should read."""

    def finished(self, sweep_id: int) -> None:
        """Take the end of the sweep."""
