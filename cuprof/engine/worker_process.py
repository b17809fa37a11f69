"""A worker process as the engine sees it: started, spoken to, watched, ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

from cuprof.core.errors import WorkerError
from cuprof.core.interrupts import stop_if_requested
from cuprof.core.scratch import read_end
from cuprof.engine.launch import Launched, take
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Calibrate, Describe, Probe, WorkerSettings
from cuprof.worker.status_page import Phase, Status
from cuprof.worker.wire import NonsenseError, Wire

POLL_S = 0.05
SHORT_POLL_S = 0.002
START_LIMIT_S = 120.0
END_LIMIT_S = 10.0
"""Wait this long for a worker to end after its last message."""


class WorkerDiedError(WorkerError):
    """Report that the worker ended by itself.

    Args:
        cause: "SIGSEGV", "exit code 3".
        status: its last reported state.
        log: the end of its standard error and output.
    """

    def __init__(self, cause: str, status: Status, log: str) -> None:
        self.cause, self.status, self.log = cause, status, log
        said = log.splitlines()[-1] if log and status and status.phase is Phase.START else ""
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
        waited = 0.0
        for answer in self.messages():
            if isinstance(answer, kinds):
                return answer
            waited += POLL_S
            if waited > limit_s:
                self.kill()
                raise WorkerError(
                    f"the worker gave no answer in {limit_s:g} s; its log ends: {read_end(self.log_path)}"
                )
        raise WorkerError("the worker closed its pipe")  # pragma: no cover - messages() raises first

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
                ended = message is None and self.poll() is not None and not self.wire.poll()
            except (EOFError, ConnectionResetError):
                raise self._died() from None
            except NonsenseError:
                status = self.page.read()
                self.kill()
                raise WorkerDiedError("nonsense in the worker's pipe", status, read_end(self.log_path)) from None
            if ended:
                raise self._died()
            yield message

    def _died(self) -> WorkerDiedError:
        status = self.page.read()  # at once: a worker that merely lost its pipe goes on with other trials
        give_up = time.monotonic() + END_LIMIT_S
        while (code := self.poll()) is None:
            if time.monotonic() > give_up:
                self.kill()
            time.sleep(SHORT_POLL_S)
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerDiedError(cause, status, read_end(self.log_path))
