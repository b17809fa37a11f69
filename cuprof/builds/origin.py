"""The process that loads a compiler once and forks a copy of itself for each build.

    python -m cuprof.builds.origin SOCKET FOLDER

An order is a folder with a pickled build, and a connection. The copy forks the process that compiles, says on the
connection how that has ended, and ends it where the owner closes the connection first. The compiling process leaves in
the folder what it has made, or in JSON why not, since the code of a kernel's file may have written it. None of them
touches a device.
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

from cuprof.builds.compilers import ORDER, PRINTED, READY, REFUSED
from cuprof.builds.result import MADE, KeptBuilds
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError

LONGEST_ORDER = 4096
LOOK_S = 0.1
"""Look this often whether a build is still wanted."""
ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal, or the end of a command, sends to all its processes: these end with their owner instead."""


def serve(orders: socket.socket) -> None:
    """Fork a process for each order until the owner closes its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    while True:
        folder, handles, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 1)
        if not folder:
            return
        with socket.socket(fileno=handles[0]) as connection:
            if not os.fork():
                orders.close()
                _watch(connection, Path(os.fsdecode(folder)))


def _watch(connection: socket.socket, folder: Path) -> NoReturn:
    """Fork the process that compiles, say how it has ended, and end what it has started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    process = os.fork()
    if not process:
        connection.close()
        _compile(folder)
    while not signal.sigtimedwait({signal.SIGCHLD}, LOOK_S):
        if select.select([connection], [], [], 0)[0]:
            os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    signalled = signal.strsignal(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ""
    with contextlib.suppress(OSError):
        connection.send(f"ended early ({signalled or f'exit code {os.WEXITSTATUS(status)}'})".encode())
    os._exit(0)


def _compile(folder: Path) -> NoReturn:
    """Carry out the order of a folder; temporary files of compilers stay there, and the owner removes it."""
    own = os.getpid()
    os.setpgid(0, 0)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    for number in ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})  # compilers wait for assemblers
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
    """Call what the folder's file names, say so, and serve."""
    orders, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    tempfile.tempdir = str(folder)
    preload = pickle.loads((folder / "preload").read_bytes())
    if preload:
        with contextlib.suppress(MissingDependencyError):  # which each build then reports
            preload[0](*preload[1:])
    orders.send(READY)
    serve(orders)


if __name__ == "__main__":
    main()
