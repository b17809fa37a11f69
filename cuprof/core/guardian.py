"""A small process between the engine and its worker: what a variant starts ends with the worker, or with the engine.

Children of the worker that left its process group or its session, and those whose parent has gone, become the
guardian's (Linux's child subreaper), so it finds and ends them all. It is forked before the worker imports anything,
costs a millisecond, and ends as the worker ended. Another program gets one too: python -m cuprof.core.guardian
ENGINE_PID FOLDER PROGRAM [ARGUMENT ...]
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from subprocess import Popen

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_LIMIT_S = 10.0
"""How long killed processes are waited for; one that hangs in a driver cannot be ended."""
POLL_S = 0.002
MARK = "CUPROF_WORKER_FOLDER"
"""Environment variable of a worker and all that it starts."""
STOP_LIMIT_S = END_LIMIT_S + 2.0
"""How long the guardian itself is waited for."""
_AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}


def guard(
    engine: int, folder: Path, close: tuple[int, ...] = (), on_interrupt: signal.Handlers = signal.SIG_IGN
) -> None:
    """Go on in a child of this process; this one stays as its guardian and never returns.

    SIGTERM asks a guardian to end everything; SIGINT is handed on to the child.

    Args:
        engine: process id of the engine, which must be our parent.
        folder: removed where the engine is gone and can no longer do it.
        close: file descriptors that are the worker's alone.
        on_interrupt: what SIGINT does in the child; the engine decides what an interrupt means to a worker.
    """
    if sys.platform != "linux":
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    control = ctypes.CDLL(None).prctl
    control(PR_SET_CHILD_SUBREAPER, 1)
    control(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != engine:  # it ended before it could be watched
        _remove(folder)
        os._exit(1)
    me = os.getpid()
    worker = os.fork()
    if worker:
        for handle in close:
            os.close(handle)
        _watch(worker, engine, folder)
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != me:
        os._exit(1)
    os.setsid()  # a variant that signals its own process group does not reach the guardian
    signal.signal(signal.SIGINT, on_interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)


def end_guarded(guardian: Popen[bytes], folder: Path) -> None:
    """End a guardian with all that it guards, and what still runs with this folder as its `MARK`."""
    from subprocess import TimeoutExpired  # the guardian itself does not need it

    guardian.terminate()
    try:
        guardian.wait(STOP_LIMIT_S)
    except TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guardian.pid, signal.SIGKILL)
        guardian.wait()
    end_marked(folder)


def end_marked(folder: Path) -> None:
    """End what still runs with this folder in its environment: a guardian that was killed could not do it."""
    mark = f"{MARK}={folder}\0".encode()
    for process in Path("/proc").glob("[1-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def _watch(worker: int, engine: int, folder: Path) -> NoReturn:
    status = None
    while status is None and (sent := signal.sigwait(_AWAITED)) != signal.SIGTERM:
        if sent == signal.SIGINT:
            os.kill(worker, sent)  # not reaped yet, so the number is still its own
        status = dict(_reap()).get(worker)
    give_up = time.monotonic() + END_LIMIT_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < give_up:
            for pid in _descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for _ in _reap(or_raise=True):
                pass
            time.sleep(POLL_S)
    if os.getppid() != engine:
        _remove(folder)
    end_like(signal.SIGKILL if status is None else status)


def _reap(*, or_raise: bool = False) -> Iterator[tuple[int, int]]:
    """Yield (process id, wait status) of every child that has ended; there may be none left."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended
    except ChildProcessError:
        if or_raise:
            raise


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - a third of the time
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, left = [], [root]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _remove(folder: Path) -> None:
    import shutil  # rarely needed

    shutil.rmtree(folder, ignore_errors=True)


def end_like(status: int) -> NoReturn:
    """End with the exit code or by the signal that this wait status tells of."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _main(words: list[str]) -> NoReturn:
    guard(int(words[0]), Path(words[1]), on_interrupt=signal.SIG_DFL)
    try:
        os.execv(words[2], words[2:])
    except OSError as error:
        sys.stderr.write(f"{words[2]} could not be started: {error.strerror}\n")
    os._exit(127)


if __name__ == "__main__":
    _main(sys.argv[1:])
