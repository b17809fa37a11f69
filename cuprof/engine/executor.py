"""Run batches on worker processes, one at a time, each replaced when it is lost, and know the devices they drive."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Self

from cuprof.backends.registry import get_spec, is_host
from cuprof.config.model import LimitsConfig
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Outcome, Unavailable
from cuprof.engine.events import Batch, Lost, Result
from cuprof.engine.measurement import Measurement
from cuprof.engine.worker_process import WorkerDiedError, WorkerProcess
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Build, Built, Job, JobTrial, Open, WorkerSettings
from cuprof.worker.status_page import Phase

MOST_WAIT_S, FOLLOWING_S = 1.0, 0.05
"""Wait this long for a build, so that a scheduler may begin others; once there is one, this long for more."""


class StoppedError(Exception):
    """Report that another thread stopped an executor while it was used."""


class Executor:
    """Run batches, one after another, in one thread; a sweep has an executor for each GPU that takes part.

    Use as a context manager, which ends the worker.

    Args:
        settings: which devices the workers open.
        limits: how long one step of a trial may take.
        sandbox: the workers' sandbox; None for the user's own code.
        devices: back end → the device that the worker opens, or why there is none; filled when the sweep is planned.

    Attributes:
        watch: called with the current trial and phase at every change.
        judge: marks outcomes with implausible times.
        reconsider: called with the back end before a doubtful trial runs alone; it may measure the device's limits.
        is_used: whether the current worker has had a job.
        unavailable: why the last job's device could not be opened; empty if it could.
        is_lost: its device has failed.
        number: its key in the store, for claiming trials; None if no other process may run them.
        doing: its current work, as text for the user.
        building, built: identities of the trials whose programs the workers compile, and of those compiled or refused.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        limits: LimitsConfig,
        sandbox: Sandbox | None = None,
        devices: Mapping[str, DeviceFacts | Unavailable] | None = None,
    ) -> None:
        self.settings, self.limits, self.sandbox, self.devices = settings, limits, sandbox, devices or {}
        self.be_unwatched()
        self.is_used = self.is_lost = self._is_stopped = False
        self.unavailable = self.doing = ""
        self.number: int | None = None
        self._worker: WorkerProcess | None = None
        self.building, self.built = set[str](), set[str]()
        self._series: tuple[Point | None, str, str] = (None, "", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._worker is not None and kind is not None:
            self._worker.kill()
        self.drop_worker()

    def be_unwatched(self) -> None:
        """Watch, judge and reconsider nothing."""
        self.watch: Callable[[JobTrial, Phase], None] = lambda trial, phase: None
        self.judge: Callable[[Outcome], Outcome] = lambda outcome: outcome
        self.reconsider: Callable[[str], object] = lambda backend: None

    @property
    def worker(self) -> WorkerProcess:
        """Return the worker, starting one where there is none.

        Raises:
            StoppedError: another thread has stopped the executor.
        """
        self.stop_if_asked()
        if self._worker is None:
            self._worker, self.is_used = WorkerProcess(self.settings, self.sandbox), False
        return self._worker

    def replace_worker(self) -> None:
        """End the worker at once; the next use starts a new one."""
        if self._worker is not None:
            self._worker.kill()
        self.drop_worker()

    def drop_worker(self) -> None:
        """End the worker, which has said all that it has to say.

        What it was building counts as built: a new worker compiles it when its turn comes, and a loss is then blamed on
        the right trial.
        """
        if self._worker is not None:
            self._worker.close()
        self._worker = None
        self.built |= self.building
        self.building.clear()

    def retire_worker(self) -> None:
        """End the worker, if there is one, while others go on, since nothing is measured any more."""
        if self._worker is not None:
            self._worker.retire()
        self._worker = None

    def stop(self) -> None:
        """Make the thread that uses the executor raise a `StoppedError` soon."""
        self._is_stopped = True

    def stop_if_asked(self) -> None:
        """Raise `StoppedError` if another thread has stopped the executor."""
        if self._is_stopped:
            raise StoppedError

    def run(self, batch: Batch) -> Iterator[Result | Lost]:
        """Begin to build, then yield the result of every trial as it comes; without a job, wait for a build.

        If the job's device cannot be opened, `Lost` stands in place of the open results.
        """
        for job in batch.build:
            self._begin_builds(job)
        if batch.job is None:
            self._await_build()
            return
        unavailable = []
        for outcome in self.measure(batch.job):
            if self.unavailable:
                unavailable.append(outcome)
            else:
                yield Result(batch, outcome)
        if unavailable:
            yield Lost(batch, self.unavailable, tuple(unavailable))

    def measure(self, job: Job) -> Iterator[Outcome]:
        """Yield the outcome of every trial of a job as it comes; see `Measurement`."""
        self.unavailable = ""
        yield from Measurement(self, job).run()
        self.built.difference_update(trial.identity for trial in job.trials)

    def is_built(self, backend: str, identity: str) -> bool:
        """Return whether a trial can be measured without waiting for a compiler that works in the background."""
        return not self.builds_ahead(backend) or identity in self.built

    def builds_ahead(self, backend: str) -> bool:
        """Return whether compilers may work in the background; they would take part in the times of the host."""
        return get_spec(backend).builds_ahead and not self.is_host(backend)

    def take_built(self, message: Built) -> None:
        """Note what the worker has built or refused."""
        self.built.update(message.identities)
        self.building.difference_update(message.identities)

    def _begin_builds(self, job: Job) -> None:
        if not self.builds_ahead(job.backend):
            return
        new = {trial.identity for trial in job.trials} - self.built - self.building
        self.building |= new
        try:
            if new:
                trials = tuple(trial for trial in job.trials if trial.identity in new)
                self.worker.send(Build(replace(job, trials=trials), self.limits.build_s))
        except WorkerDiedError:
            self.drop_worker()

    def _await_build(self) -> None:
        """Return a moment after a program is built, or after `MOST_WAIT_S`, or if the worker is lost."""
        give_up = time.monotonic() + MOST_WAIT_S
        try:
            for message in self.worker.messages() if self.building else ():
                self.stop_if_asked()
                if isinstance(message, Built):
                    self.take_built(message)
                    give_up = min(give_up, time.monotonic() + FOLLOWING_S)
                elif message is None and self.worker.page.read().age_s > self.limits.trial_s:
                    self.replace_worker()
                if not self.building or time.monotonic() > give_up:
                    return
        except WorkerDiedError:
            self.drop_worker()

    def open_ahead(self) -> None:
        """Have the worker open the devices that take long to open while the database is opened."""
        slow = tuple(name for name in self.devices if self.find_device(name) and get_spec(name).imports)
        if slow:
            with suppress(WorkerDiedError):  # the next use of the worker reports it
                self.worker.send(Open(slow))

    def find_series(self, problem: Point, backend: str) -> str:
        """Return a key shared by consecutive batches of a problem here, and by no others."""
        if self._series[:2] != (problem, backend):
            self._series = (problem, backend, secrets.token_hex(8))
        return self._series[2]

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
        found = [device for device in self.devices.values() if isinstance(device, DeviceFacts)]
        return [device for device in found if not is_host(device)]
