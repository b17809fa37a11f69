"""Start strangers' processes within milliseconds: they are forked from one that has imported what they need.

The server runs no stranger's code. It does not outlive this process, nor do its children outlive it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from threading import Lock
from typing import Any

from cuprof.core.errors import LaunchError
from cuprof.core.interrupts import shielded
from cuprof.core.processes import MARK, child_command, child_environment
from cuprof.core.scratch import ScratchFolder
from cuprof.sandbox.settings import Sandbox, inner_environment

MOST_ANSWER = 64


class ForkServer(AbstractContextManager["ForkServer"]):
    """The server; use as a context manager. Linux ends it with the thread that started it."""

    def __init__(self) -> None:
        self._folder, self._lock = ScratchFolder(), Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Modules look for their caches when they are imported: all children see an empty folder there.
        environment = inner_environment(child_environment(), Sandbox())
        environment |= {"PYTHONUNBUFFERED": "1", MARK: str(self._folder.path)}
        with shielded(), theirs:
            self._process = subprocess.Popen(
                child_command("cuprof.judge.border", str(theirs.fileno()), str(os.getpid())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            )

    def __exit__(self, *_: object) -> None:
        with shielded():
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._folder.cleanup()

    def load(self, modules: Sequence[str]) -> None:
        """Begin to import modules that processes in a sandbox with namespaces will need, as far as they are there."""
        with self._lock:
            self._control.send(json.dumps([*modules]).encode())

    def fork(self, environment: dict[str, str], sandbox: str, handles: Sequence[int]) -> Forked:
        """Start a process.

        Args:
            environment: of the process; `MARK` in it names a `ScratchFolder`.
            sandbox: the file that it is written in; empty for none.
            handles: of its log, its pipe and, if any, of the shared memory.

        Raises:
            LaunchError: the system refuses one.
        """
        try:
            pid = self.ask({"environment": environment, "sandbox": sandbox}, handles)
        except OSError as error:  # a user's processes together may have so many descriptors under way
            raise LaunchError(f"no process can be started: {error.strerror}") from None
        if pid < 0:
            raise LaunchError(f"no process can be started: {os.strerror(-pid)}")
        return Forked(self, pid)

    def ask(self, request: Any, handles: Sequence[int] = ()) -> int:
        """Return the answer to a request; see `cuprof.judge.border.__main__`."""
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], handles)
            answer: int = json.loads(self._control.recv(MOST_ANSWER))
        return answer


class Forked:
    """A process of the server, with the needed methods of `subprocess.Popen`."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid, self._server = pid, server
        self._handle = os.pidfd_open(pid)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code."""
        if self._code is None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self._code = os.waitstatus_to_exitcode(self._server.ask(self.pid))
            os.close(self._handle)
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
