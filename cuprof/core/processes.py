"""Processes that cuprof starts: their environment and command, and the guardian that ends what they leave running.

A guardian is a small process between the engine and its worker. It adopts children of the worker that left its process
group or session, or that lost their parent (Linux's child subreaper), so it finds and ends them all. It is
forked before the worker imports anything, costs a millisecond, and ends as the worker ended. Give another program one
with `python -m cuprof.core.processes ENGINE_PID FOLDER PROGRAM [ARGUMENT ...]`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, Protocol

AT_ONCE = "CUPROF_AT_ONCE"
"""Environment variable: modules that a worker imports before it is asked for anything."""
AHEAD = "CUPROF_AHEAD"
"""Environment variable of a worker that starts idle: modules to import meanwhile, separated by commas."""
MARK = "CUPROF_WORKER_FOLDER"
"""Environment variable of a worker and all that it starts."""
BLAS_THREADS, BLAS_THREADS_BEFORE = "OPENBLAS_NUM_THREADS", "CUPROF_OPENBLAS_NUM_THREADS"

HERE = Path(__file__).resolve().parents[2]
"""The folder that this package is imported from."""
PACKAGE_FOLDERS = ("site-packages", "dist-packages")
ALONE = "CUPROF_ALONE"
"""Set for a process that is to find no modules beside this package, since the one that starts it finds none."""
MOST_AT_ONCE = 8
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_LIMIT_S = 10.0
"""How long to wait for killed processes; one that hangs in a driver cannot be ended."""
STOP_LIMIT_S = END_LIMIT_S + 2.0
"""How long to wait for the guardian itself."""
POLL_S = 0.002
MOST_ENVIRONMENT = 8 << 20
"""Bytes to read of a process's environment. `execve` takes 6 MB at most (3/4 of `_STK_LIM` in Linux' fs/exec.c), but a
process may have the kernel show gigabytes of its memory in that place (`PR_SET_MM_MAP`)."""
AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
"""Signals that a guardian waits for."""


def count_cores() -> int:
    """Return how many cores this process may use, at least one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_at_once() -> int:
    """Return how many workers may get ready at once: each takes a core, and its compiler another."""
    return max(1, min(MOST_AT_ONCE, count_cores() // 2))


def spare_cores() -> None:
    """Keep NumPy and SciPy from starting threads in this process, but not in its children.

    Threads that wait for work keep all cores busy for a while, and slow down the worker that is starting on one.
    """
    os.environ.setdefault(BLAS_THREADS_BEFORE, os.environ.get(BLAS_THREADS, ""))
    os.environ[BLAS_THREADS] = "1"


def leave_checkout() -> None:
    """Find no modules beside this package any more, unless packages are installed there.

    In a checkout a candidate may lie there, and be named like an optional module.
    """
    if HERE.name not in PACKAGE_FOLDERS:
        sys.path[:] = [path for path in sys.path if Path(path).resolve() != HERE]


def child_environment() -> dict[str, str]:
    """Return our environment, with the package that runs here importable in the child; see `ALONE`."""
    paths = [str(HERE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    environment |= {} if HERE in (Path(path).resolve() for path in sys.path) else {ALONE: "1"}
    if (before := environment.pop(BLAS_THREADS_BEFORE, None)) is not None:
        environment.pop(BLAS_THREADS, None)
        environment |= {BLAS_THREADS: before} if before else {}
    return environment


def child_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules; `-P` keeps it from importing files of the current folder."""
    return sys.executable, "-P", "-m", module, *arguments


def import_ahead(*modules: str) -> None:
    """Import modules while something else is waited for; what needs one that is missing reports it."""
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def guard(
    engine: int, folder: Path, close: tuple[int, ...] = (), on_interrupt: signal.Handlers = signal.SIG_IGN
) -> None:
    """Go on in a child of this process; this one stays as its guardian and never returns.

    SIGTERM makes the guardian end everything; it passes SIGINT on to the child.

    Args:
        engine: process id of the engine, which must be our parent.
        folder: removed if the engine has gone and can no longer remove it.
        close: file descriptors that only the worker keeps.
        on_interrupt: what SIGINT does in the child; the engine decides what an interrupt means to a worker.
    """
    if sys.platform != "linux":
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
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
    signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)


class Process(Protocol):
    """The needed part of `subprocess.Popen`."""

    pid: int

    def terminate(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def end_guarded(guardian: Process, folder: Path) -> None:
    """End a guardian with everything that it guards, and whatever still runs with this folder as its `MARK`."""
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
        with contextlib.suppress(OSError), (process / "environ").open("rb") as environment:
            if mark in environment.read(MOST_ENVIRONMENT):
                os.kill(int(process.name), signal.SIGKILL)


def name_end(code: int) -> str:
    """Return how a process ended, by its exit code, which is negative for a signal: "SIGKILL", "exit code 3"."""
    if code >= 0:
        return f"exit code {code}"
    return signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"  # real-time ones have none


def end_like(status: int) -> NoReturn:
    """End this process as another one ended, by its wait status: with its exit code, or by its signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _watch(worker: int, engine: int, folder: Path) -> NoReturn:
    status = None
    while status is None and (sent := signal.sigwait(AWAITED)) != signal.SIGTERM:
        if sent == signal.SIGINT:
            os.kill(worker, sent)  # not reaped yet, so the number is still its own
        with contextlib.suppress(ChildProcessError):  # there may be none left
            for pid, ended in _reap():
                status = ended if pid == worker else status
    if status is None:  # where it keeps a sandbox, what is inside ends with it, and at once: it may fork meanwhile
        os.kill(worker, signal.SIGKILL)
        time.sleep(POLL_S)
    give_up = time.monotonic() + END_LIMIT_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < give_up:
            for pid in _descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for _ in _reap():
                pass
            time.sleep(POLL_S)
    if os.getppid() != engine:
        _remove(folder)
    end_like(signal.SIGKILL if status is None else status)


def _reap() -> Iterator[tuple[int, int]]:
    """Yield (process id, wait status) of every child that has ended; raise `ChildProcessError` where none is left."""
    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
        yield ended


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
    found = [root]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def _remove(folder: Path) -> None:
    import shutil  # rarely needed

    shutil.rmtree(folder, ignore_errors=True)


def _main(words: list[str]) -> NoReturn:
    guard(int(words[0]), Path(words[1]), on_interrupt=signal.SIG_DFL)
    try:
        os.execv(words[2], words[2:])
    except OSError as error:
        sys.stderr.write(f"{words[2]} could not be started: {error.strerror}\n")
    os._exit(127)


if __name__ == "__main__":
    _main(sys.argv[1:])
