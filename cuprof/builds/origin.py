"""The process that loads a compiler once and forks a copy of itself for each build.

    python -m cuprof.builds.origin SOCKET FOLDER

An order is a folder with a pickled build, and a connection on which the origin says how its process has ended. The
process leaves in the folder what it has made, or in JSON why not, since the code of a kernel's file may have written
it. Neither process touches a device.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

from cuprof.builds.compilers import ORDER, PRINTED, PROCESS, READY, REFUSED
from cuprof.builds.result import MADE, KeptBuilds
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError

MOST_BYTES = 4096
"""Longest order, and most signals that are taken note of at once."""
ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal, or the end of a command, sends to all its processes."""


def serve(orders: socket.socket) -> None:
    """Fork a process for each order until the owner closes its end, then end those that are left."""
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ending in ENDINGS:
        signal.signal(ending, lambda *_: sys.exit(1))
    forks: dict[int, socket.socket] = {}
    try:
        while True:
            ready = select.select([orders, woken], [], [])[0]
            if woken in ready:
                woken.recv(MOST_BYTES)
                _reap(forks)
            if orders in ready:
                folder, handles, _, _ = socket.recv_fds(orders, MOST_BYTES, 1)
                if not folder:
                    return
                if handles:  # none where no more files can be opened
                    _fork(forks, socket.socket(fileno=handles[0]), Path(os.fsdecode(folder)))
    finally:
        for process in forks:
            _end_group(process)


def _fork(forks: dict[int, socket.socket], connection: socket.socket, folder: Path) -> None:
    try:
        process = os.fork()
    except OSError as error:
        _answer(connection, f"could not be forked ({error.strerror})")
        return
    if not process:
        for each in (connection, *forks.values()):
            each.close()
        _compile(folder)
    forks[process] = connection


def _reap(forks: dict[int, socket.socket]) -> None:
    """Forget the processes that have ended: end what they started, and say how they ended."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if connection := forks.pop(ended.si_pid, None):
                _end_group(ended.si_pid)
                by_itself = ended.si_code == os.CLD_EXITED
                how = f"exit code {ended.si_status}" if by_itself else signal.strsignal(ended.si_status)
                _answer(connection, f"ended early ({how})")
            os.waitpid(ended.si_pid, 0)


def _answer(connection: socket.socket, how: str) -> None:
    with connection, contextlib.suppress(OSError):
        connection.send(how.encode(), socket.MSG_DONTWAIT)


def _end_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _compile(folder: Path) -> NoReturn:
    """Carry out the order of a folder; temporary files of compilers stay there, and the owner removes it."""
    own = os.getpid()
    os.setpgid(0, 0)
    (folder / PROCESS).write_text(str(own))
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, *ENDINGS):  # compilers wait for assemblers
        signal.signal(number, signal.SIG_DFL)
    handle = os.open(folder / PRINTED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    refused: tuple[str, ...] = ()
    try:
        built = pickle.loads((folder / ORDER).read_bytes()).run()
    except ImpossibleError as error:
        refused = ("ImpossibleError", str(error))
    except MissingDependencyError as error:
        refused = ("MissingDependencyError", error.what, error.remedy)
    except BuildError as error:
        refused = ("BuildError", str(error), error.log)
    except BaseException as error:  # a process border: whatever the code of a kernel's file raises is its own fault
        from cuprof.families.trace import describe

        refused = ("BuildError", describe(error), traceback.format_exc())
    if os.getpid() == own:  # and not a copy that a kernel's file has made of this process
        if refused:
            (folder / REFUSED).write_text(json.dumps(refused))
        else:
            KeptBuilds(folder).keep(MADE, built)
    os._exit(0)  # taking the interpreter down would cost as much as a small build


def main() -> None:
    """Load what the folder's file names, say so, and serve."""
    orders, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    pickle.loads((folder / "preload").read_bytes()).load(folder)
    orders.send(READY)
    serve(orders)


if __name__ == "__main__":
    main()
