"""Run batches on workers, and know the devices that they drive."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from cuprof.backends.registry import get_spec, is_host
from cuprof.core.records import DeviceFacts, Outcome, State, Unavailable
from cuprof.engine.measurement import Measurement
from cuprof.engine.worker_process import WorkerDiedError, Workers
from cuprof.worker.messages import Build, Built, Job, Open, Prepare

MOST_WAIT_S, FOLLOWING_S = 1.0, 0.05
"""Wait this long for a build, so that a scheduler may begin others; once there is one, this long for more."""


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
    """A trial of a batch has ended.

    Args:
        is_lost: the executor's device cannot be opened; the outcome, which says why, is for a sweep that has no other.
    """

    batch: Batch
    outcome: Outcome
    is_lost: bool = False


class Executor(Workers):
    """Run batches, one after another; a sweep has an executor for each GPU that takes part.

    Attributes:
        number: its key in the store, for claiming trials; 0 if no other process may run them, or its device has failed.
        doing: its current work, as text for the user.
    """

    doing, number = "", 0
    _skipped: Mapping[str, str] = MappingProxyType({})
    _again: Mapping[str, Outcome] = MappingProxyType({})

    def run(self, batch: Batch) -> Iterator[Result]:
        """Begin to build, then yield the result of every trial as it comes; without a job, wait for a build."""
        for job in batch.build:
            self._begin_builds(job)
        if batch.job is None:
            self.await_ready(time.monotonic() + MOST_WAIT_S, FOLLOWING_S)
            if self.building and self.worker.page.read().age_s > self.limits.trial_s:
                self.drop_worker()  # it hangs
            return
        for outcome in self.measure(batch.job):
            yield Result(batch, outcome, self.is_unavailable)

    def measure(self, job: Job) -> Iterator[Outcome]:
        """Yield the outcome of every trial of a job as it comes; see `Measurement`."""
        self.is_unavailable = False
        again = {trial.identity: found for trial in job.trials if (found := self._find_again(trial.identity))}
        for identity, found in again.items():
            yield replace(found, identity=identity, started_at=time.time(), duration_ns=0)
        left = tuple(trial for trial in job.trials if trial.identity not in again)
        for outcome in Measurement(self, replace(job, trials=left)).run():
            # Its own code lacks something; a device that cannot be opened may be free in a moment.
            is_lacking = outcome.state is State.SKIPPED and outcome.phase == "build"
            if is_lacking and self._skipped.get(outcome.identity) == outcome.message:
                self._again = {**self._again, outcome.message: outcome}
            yield outcome
        self.built.difference_update(trial.identity for trial in job.trials)

    def expect_skips(self, reasons: Mapping[str, str]) -> None:
        """Try only one of the trials that were skipped for the same reason, if it still is; identity → reason."""
        self._skipped, self._again = reasons, {}

    def _find_again(self, identity: str) -> Outcome | None:
        """Return the outcome of a trial that was skipped before for a reason that has been found again."""
        return self._again.get(self._skipped.get(identity, ""))

    def is_built(self, backend: str, identity: str) -> bool:
        """Return whether a trial can be answered without waiting for a compiler that works in the background."""
        return not self.builds_ahead(backend) or identity in self.built or bool(self._find_again(identity))

    def builds_ahead(self, backend: str) -> bool:
        """Return whether compilers may work in the background; they would take part in the times of the host."""
        return not self.is_host(backend)

    def _begin_builds(self, job: Job) -> None:
        new = {trial.identity for trial in job.trials if not self._find_again(trial.identity)}
        new -= self.built | self.building
        if not new or not self.builds_ahead(job.backend):
            return
        self.building |= new
        trials = tuple(trial for trial in job.trials if trial.identity in new)
        try:
            self.worker.send(Build(replace(job, trials=trials), self.limits.build_s))
        except WorkerDiedError:
            self.drop_worker()

    def prepare(self, job: Job) -> None:
        """Have the worker do what a job needs beside the device, while others do so; `await_ready` waits for it."""
        self.building |= {trial.identity for trial in job.trials}
        self.tell(Prepare(job))

    def await_ready(self, until: float, following_s: float = math.inf) -> bool:
        """Wait for what the worker builds or prepares; return whether it is done.

        Args:
            until: by the monotonic clock, when not to wait any longer.
            following_s: once a part is done, wait this long for more.
        """
        try:
            for message in self.worker.messages() if self.building else ():
                self.stop_if_asked()
                if isinstance(message, Built):
                    self.take_built(message)
                    until = min(until, time.monotonic() + following_s)
                if not self.building or time.monotonic() > until:
                    break
        except WorkerDiedError:
            self.drop_worker()
            return False
        return not self.building

    def open_ahead(self) -> None:
        """Have the worker open the devices that take long to open while the database is opened."""
        slow = tuple(name for name in self.devices if self.find_device(name) and get_spec(name).imports)
        if slow:
            self.tell(Open(slow))

    def calibrates(self, backend: str) -> bool:
        """Return whether times are held against what the device can do."""
        return True

    def find_device(self, backend: str) -> DeviceFacts | None:
        """Return the device of a back end, None where there is none."""
        device = self.devices.get(backend)
        return device if isinstance(device, DeviceFacts) else None

    def can_do(self, backend: str) -> bool:
        """Return whether jobs of a back end can be run here, as far as that is known."""
        return not isinstance(self.devices.get(backend), Unavailable)

    def is_host(self, backend: str) -> bool:
        """Return whether the back end's device here is the host's own processor."""
        return is_host(self.find_device(backend))

    @property
    def name(self) -> str:
        """Return its display name: its devices other than the host, else the host."""
        ordinals = [f"{device.backend}:{device.index} ({device.name})" for device in self.accelerators]
        return " and ".join(ordinals) or "host"

    @property
    def accelerators(self) -> list[DeviceFacts]:
        """Return the devices that are not the host's own processor."""
        return [device for device in map(self.find_device, self.devices) if device and not is_host(device)]
