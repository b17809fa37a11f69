"""Worker processes as the engine sees them: started, spoken to, watched, replaced whenever one is lost, ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from cuprof.config.model import LimitsConfig
from cuprof.core.errors import WorkerError
from cuprof.core.interrupts import stop_if_requested
from cuprof.core.processes import name_end
from cuprof.core.records import DeviceFacts, Outcome, Unavailable
from cuprof.core.scratch import read_end
from cuprof.engine.launch import Launched, take
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Built, Calibrate, Describe, JobTrial, Probe, WorkerSettings
from cuprof.worker.status_page import Phase, Status
from cuprof.worker.wire import NonsenseError, Wire

POLL_S = 0.05
SHORT_POLL_S = 0.002
START_LIMIT_S = 120.0
END_LIMIT_S = 10.0
"""Wait this long for a worker to end after its last message."""
FROM_OUTSIDE = ("SIGKILL", "SIGTERM")
"""Signals from people, batch systems and a kernel short of memory; the code in a process seldom sends itself these."""
MOST_KILLS = 3
"""Allow this many such kills within a job before blaming the trial that was running."""


class WorkerDiedError(WorkerError):
    """Report that the worker ended by itself.

    Args:
        cause: "SIGSEGV", "exit code 3".
        status: its last reported state.
        log: the end of its standard error and output.
    """

    def __init__(self, cause: str, status: Status, log: str) -> None:
        self.cause, self.status, self.log = cause, status, log
        self.is_from_outside = cause in FROM_OUTSIDE
        said = log.splitlines()[-1] if log and status.phase is Phase.START else ""
        super().__init__(f"the worker process died ({cause}{f': {said}' if said else ''})")


class WorkerProcess(Launched):
    """One worker that is spoken to."""

    def __init__(self, settings: WorkerSettings, sandbox: Sandbox | None = None) -> None:
        super().__init__(**vars(take(sandbox)))
        self.wire = Wire(self.pipe)
        try:
            self.send(settings)
        except WorkerDiedError:
            self.discard()
            raise

    def ask(self, question: Describe | Calibrate | Probe, *kinds: type, limit_s: float = START_LIMIT_S) -> Any:
        """Ask something, and return the answer, of one of these kinds.

        Raises:
            WorkerError: it does not answer in time, or died.
        """
        self.send(question)
        messages, waited = self.messages(), 0.0
        while not isinstance(answer := next(messages), kinds):
            waited += POLL_S
            if waited > limit_s:
                self.kill()
                said = read_end(self.log_path)
                raise WorkerError(f"the worker gave no answer in {limit_s:g} s; its log ends: {said}")
        return answer

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            WorkerDiedError: nobody is there to take it.
        """
        try:
            self.wire.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None

    def messages(self) -> Iterator[Any]:
        """Yield the worker's messages, and None about every `POLL_S` seconds while there are none.

        Raises:
            WorkerDiedError: it ended.
        """
        while True:
            stop_if_requested()
            try:
                message = self.wire.receive() if self.wire.poll(POLL_S) else None
                # A process that the worker forked may hold the pipe open after the worker's death.
                if message is None and self.poll() is not None and not self.wire.poll():
                    raise EOFError
            except (EOFError, ConnectionResetError):
                raise self._died() from None
            except NonsenseError:
                status = self.page.read()
                self.kill()
                raise WorkerDiedError("nonsense in the worker's pipe", status, read_end(self.log_path)) from None
            yield message

    def _died(self) -> WorkerDiedError:
        status = self.page.read()  # at once: a worker that merely lost its pipe goes on with other trials
        give_up = time.monotonic() + END_LIMIT_S
        while (code := self.poll()) is None:
            if time.monotonic() > give_up:
                self.kill()
            time.sleep(SHORT_POLL_S)
        return WorkerDiedError(name_end(code), status, read_end(self.log_path))


class StoppedError(Exception):
    """Report that another thread stopped an executor while it was used."""


class Workers:
    """Start, replace and end workers; use as a context manager, in one thread but for `stop`.

    Args:
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

    def tell(self, message: object) -> None:
        """Send the worker what has no answer of its own; the next use of one that has died reports that."""
        with suppress(WorkerDiedError):
            self.worker.send(message)

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
