"""Workers for tests, forked from a process that has imported what every worker does: half a second of a processor each.

`python -m tests.forked_workers HANDLE` is that process. From the fork on a worker is what `python -m cuprof.worker` is.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

AHEAD = ("cuda.bindings.driver", "cuda.bindings.nvrtc", "cuprof.backends.cpu.backend", "cuprof.worker.server")
MOST_BYTES = 1 << 17


def start_worker(command: Sequence[str], **settings: Any) -> Forked:
    """Start a worker as `cuprof.engine.launch` does by `subprocess.Popen`."""
    return _nursery().start(command, **settings)


@cache
def load_ahead(module: str) -> None:
    """Import a module once for all workers that are forked from now on."""
    _nursery().load(module)


@cache
def _nursery() -> Nursery:
    return Nursery()


@atexit.register  # at the import, so that workers that commands started ahead are ended before it
def _close() -> None:
    if _nursery.cache_info().currsize:
        _nursery().close()


class Nursery:
    """The process that workers are forked from, as tests see it; it ends with theirs."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = Path(__file__).parents[1]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.forked_workers", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
            )
        self._lock = threading.Lock()
        self._running: dict[int, Forked] = {}

    def start(
        self, command: Sequence[str], pass_fds: Sequence[int], stdout: IO[bytes], env: Mapping[str, str], **_: Any
    ) -> Forked:
        """Fork a worker; the other settings are as it does everything."""
        words = [*command[command.index("cuprof.worker") + 1 :]]
        said = json.dumps([words, dict(env), str(Path.cwd())]).encode()
        assert len(said) < MOST_BYTES
        with self._lock:
            socket.send_fds(self._ours, [said], [pass_fds[0], stdout.fileno()])
            pid = 0
            while not pid:
                pid = self._hear()
            started = self._running[pid] = Forked(self, pid)
        return started

    def load(self, module: str) -> None:
        """Import a module before the next worker is forked."""
        with self._lock:
            self._ours.send(json.dumps(module).encode())

    def hear_all(self, timeout_s: float = 0.0) -> None:
        """Take note of those that have ended, at least one unless the time is up."""
        with self._lock:
            while select.select([self._ours], [], [], timeout_s)[0]:
                self._hear()
                timeout_s = 0.0

    def _hear(self) -> int:
        """Take one answer; return the process id where it tells of a start."""
        pid, status = json.loads(self._ours.recv(MOST_BYTES))
        if status is None:
            return int(pid)
        if ended := self._running.pop(pid, None):  # the system may give its number to another one from now on
            ended.returncode = status
        return 0

    def close(self) -> None:
        """Let the process end."""
        self._ours.close()
        self._process.wait()


class Forked:
    """A worker's guardian, with what `Launched` asks a `subprocess.Popen`."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid, self.args = nursery, pid, "a worker of a test"
        self.returncode: int | None = None

    def poll(self) -> int | None:
        self._nursery.hear_all()
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        give_up = time.monotonic() + timeout
        while (code := self.returncode) is None:
            if time.monotonic() > give_up:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._nursery.hear_all(0.02)
        return code

    def terminate(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since, and its parent has heard of it
                os.kill(self.pid, signal.SIGTERM)


def _serve(handle: int) -> None:
    """Fork a worker for each request, and tell of each that has ended, until nobody asks any more."""
    for name in AHEAD:
        importlib.import_module(name)
    gc.freeze()
    control = socket.socket(fileno=handle)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready = select.select([control, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            while (ended := _reap()) is not None:
                control.send(json.dumps(ended).encode())
        if control in ready:
            said, handles, *_ = socket.recv_fds(control, MOST_BYTES, 2)
            if not said:
                return
            asked = json.loads(said)
            if isinstance(asked, str):
                importlib.import_module(asked)
                gc.freeze()
                continue
            parent, pid = os.getpid(), os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (woken, wake, handle):
                    os.close(each)
                _become_worker(parent, *asked, *handles)
            for each in handles:
                os.close(each)
            control.send(json.dumps([pid, None]).encode())


def _reap() -> list[int] | None:
    """Return (process id, exit code as Popen tells it) of a child that has ended, if any has."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return [pid, os.waitstatus_to_exitcode(status)] if pid else None


def _become_worker(
    parent: int, words: list[str], environment: dict[str, str], folder: str, pipe: int, log: int
) -> NoReturn:
    """Go on as the process that would have been started."""
    os.setsid()
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(environment)
    atexit._clear()
    sys.argv = ["cuprof.worker", str(pipe), words[1], str(parent), *words[3:]]
    from cuprof.worker.__main__ import main

    code: int | str | None = 1
    try:
        code = main(sys.argv[1:])
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
