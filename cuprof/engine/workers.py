"""One worker process at a time, replaced whenever it is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from cuprof.config.model import LimitsConfig
from cuprof.core.records import DeviceFacts, Outcome, Unavailable
from cuprof.engine.worker_process import WorkerProcess
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Built, JobTrial, WorkerSettings
from cuprof.worker.status_page import Phase


class StoppedError(Exception):
    """Report that another thread stopped an executor while it was used."""


class Workers:
    """Start, replace and end workers; use as a context manager, in one thread but for `stop`.

    Args:
        settings: which devices the workers open.
        limits: how long one step of a trial may take.
        sandbox: the workers' sandbox; None for the user's own code.
        devices: back end → the device that the workers open, or why there is none; filled when a sweep is planned.

    Attributes:
        watch: called with the current trial and phase at every change.
        judge: marks outcomes with implausible times.
        reconsider: called with the back end before a doubtful trial runs alone; it may measure the device's limits.
        is_used: whether the current worker has had a job.
        is_unavailable: the last job's device could not be opened.
        building, built: identities of the trials whose programs the workers compile, and of those compiled or refused.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        limits: LimitsConfig,
        sandbox: Sandbox | None = None,
        devices: Mapping[str, DeviceFacts | Unavailable] | None = None,
    ) -> None:
        self.settings, self.limits, self.sandbox = settings, limits, sandbox
        self.devices = devices or {}
        self.be_unwatched()
        self.is_used = self.is_unavailable = False
        self.building, self.built = set[str](), set[str]()
        self._worker: WorkerProcess | None = None
        self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def drop_worker(self) -> None:
        """End the worker at once; the next use starts a new one.

        What it was building counts as built: a new worker compiles it when its turn comes, and a loss is then blamed on
        the right trial.
        """
        if self._worker is not None:
            self._worker.discard()
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

    def take_built(self, message: Built) -> None:
        """Note what the worker has built or refused."""
        self.built.update(message.identities)
        self.building.difference_update(message.identities)
