"""One worker process at a time, replaced whenever it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from cuprof.config.model import LimitsConfig
from cuprof.core.records import Outcome
from cuprof.engine.worker_process import WorkerProcess
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Built, JobTrial, WorkerSettings
from cuprof.worker.status_page import Phase

Watch = Callable[[JobTrial, Phase], None]
Judge = Callable[[Outcome], Outcome]


class StoppedError(Exception):
    """Report that another thread stopped the workers while they were used."""


class Builds:
    """Know which trials' programs are built, by the workers' account.

    Attributes:
        running: identities of what is being built.
    """

    def __init__(self) -> None:
        self.running: set[str] = set()
        self._done: set[str] = set()

    def begin(self, identities: Iterable[str]) -> set[str]:
        """Note builds that begin now, and return those that are neither running nor done."""
        new = {*identities} - self._done - self.running
        self.running |= new
        return new

    def take(self, message: Built) -> None:
        """Note what a worker has built."""
        self._done.update(message.identities)
        self.running.difference_update(message.identities)

    def end(self) -> None:
        """Count what a lost worker was building as built.

        A new worker compiles it when its turn comes, and its loss is then blamed on the right trial.
        """
        self._done |= self.running
        self.running.clear()

    def is_done(self, identity: str) -> bool:
        """Return whether a program is built or refused."""
        return identity in self._done

    def forget(self, identities: Iterable[str]) -> None:
        """Forget what has been measured."""
        self._done.difference_update(identities)


class Workers:
    """Start, replace and end workers; use as a context manager, in one thread but for `stop`.

    Args:
        settings: which devices the workers open.
        limits: how long one step of a trial may take.
        sandbox: the workers' sandbox; None for the user's own code.

    Attributes:
        watch: called with the current trial and phase at every change.
        judge: marks outcomes with implausible times.
        reconsider: called with the back end before a doubtful trial runs alone; it may measure the device's limits.
        builds: what is built in the background, and what is built.
        is_used: whether the current worker has had a job.
        unavailable: why the last job's device could not be opened; empty if it could.
    """

    def __init__(self, settings: WorkerSettings, limits: LimitsConfig, sandbox: Sandbox | None = None) -> None:
        self.settings, self.limits, self.sandbox = settings, limits, sandbox
        self.be_unwatched()
        self.is_used, self.unavailable = False, ""
        self.builds = Builds()
        self._worker: WorkerProcess | None = None
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._worker is not None and kind is not None:
            self._worker.kill()
        self.drop_worker()

    def be_unwatched(self) -> None:
        """Watch, judge and reconsider nothing."""
        self.watch: Watch = lambda trial, phase: None
        self.judge: Judge = lambda outcome: outcome
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
        """End the worker, which has said all that it has to say."""
        if self._worker is not None:
            self._worker.close()
        self._worker = None
        self.builds.end()

    def retire_worker(self) -> None:
        """End the worker, if there is one, while others go on, since nothing is measured any more."""
        if self._worker is not None:
            self._worker.retire()
        self._worker = None

    def stop(self) -> None:
        """Make the thread that uses the executor raise a `StoppedError` soon."""
        self._stopped = True

    def stop_if_asked(self) -> None:
        """Raise `StoppedError` if another thread has stopped the executor."""
        if self._stopped:
            raise StoppedError
