"""A trial in progress and the answer to it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cuprof.backends.contract import DeviceLostError, Runnable
from cuprof.core import errors
from cuprof.core.records import OF_FAMILY, Check, Measure, Outcome, State, Timing
from cuprof.core.text import excerpt, one_line
from cuprof.families import Program, Tolerances, Variant
from cuprof.families.trace import describe, last_frames
from cuprof.worker.messages import Finished, JobTrial
from cuprof.worker.status_page import Phase, StatusPage


@dataclass(eq=False)
class Trial:
    """A trial in progress.

    Attributes:
        index: its place in the job.
        asked: what the job asks for.
        runnable: the session's runnable, from its preparation until its rotation is over.
        tolerances: the tolerances of its results, for each set of inputs.
        looks: how many of its results have been compared on the host.
        begun: its own code has been run.
        opened: files that it opened during preparation.
        changes_settings: its own code sets limits or preferences of the device, which stay in effect while it is alone.
    """

    index: int
    asked: JobTrial
    variant: Variant
    program: Program | None = None
    runnable: Runnable | None = None
    check: Check | None = None
    tolerances: list[Tolerances] = field(default_factory=list)
    looks: int = 0
    begun: bool = False
    started_at: float = field(default_factory=time.time)
    started_ns: int = field(default_factory=time.monotonic_ns)
    timings: dict[Measure, Timing] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    changes_settings: bool = False

    @property
    def calls_host(self) -> bool:
        """Return whether an execution runs code of its own on the host."""
        return self.program is None or self.program.calls_host

    @property
    def bound(self) -> Runnable:
        """Return its runnable.

        Raises:
            LaunchError: it has not been prepared.
        """
        if self.runnable is None:
            raise errors.LaunchError(f"{self.variant.name} has not been prepared")
        return self.runnable

    def attempt(self, page: StatusPage, phase: Phase, action: Callable[[Trial], None]) -> Finished | None:
        """Carry out one step, which the page tells of; return how it failed, or None."""
        page.enter(self.index, phase)
        try:
            action(self)
        except Exception as error:  # whatever a variant raises costs its own trial alone
            return self.fail(phase, error)
        return None

    def fail(self, phase: Phase, error: Exception) -> Finished:
        """Return the answer for an error raised in a phase."""
        if isinstance(error, errors.FamilyFault):
            return self.reject(State.SKIPPED, f"the family's {one_line(str(error))}", OF_FAMILY)
        if isinstance(error, errors.LaunchError):
            self.timings = {}
        finished = self.finish(*explain(error), phase.name.lower())
        lost, starved = isinstance(error, DeviceLostError), isinstance(error, errors.DeviceMemoryError)
        return replace(finished, lost=lost, starved=starved)

    def reject(self, state: State, message: str, phase: str = "time") -> Finished:
        """Return the answer to a trial whose times do not count."""
        self.timings = {}
        return self.finish(state, message, phase=phase)

    def finish(self, state: State, message: str = "", log: str = "", phase: str = "") -> Finished:
        """Return the answer to this trial as it stands."""
        outcome = Outcome(
            identity=self.asked.identity,
            state=state,
            message=message,
            log=log,
            phase=phase,
            check=self.check,
            build=self.runnable.build if self.runnable is not None else None,
            timings=tuple(self.timings.values()),
            started_at=self.started_at,
            duration_ns=time.monotonic_ns() - self.started_ns,
            opened=tuple(sorted(self.opened)),
        )
        return Finished(self.index, outcome)

    def release(self) -> None:
        """Release its resources and measurements: samples, library plans and their workspace."""
        self.runnable, self.check, self.timings = None, None, {}


def explain(error: BaseException) -> tuple[State, str, str]:
    """Return how an error ends a trial, what its author needs to know of it, and the log."""
    if isinstance(error, errors.BuildError):
        return State.COMPILE_ERROR, one_line(str(error)), excerpt(error.log)
    if isinstance(error, errors.ImpossibleError):
        return State.IMPOSSIBLE, one_line(str(error)), ""
    if isinstance(error, errors.MissingDependencyError | ImportError):
        return State.SKIPPED, one_line(str(error)), ""
    if isinstance(error, errors.LaunchError):
        return State.LAUNCH_ERROR, one_line(str(error)), ""
    log = excerpt("".join(traceback.format_exception(error)))
    return State.LAUNCH_ERROR, describe(error) + last_frames(error), log
