"""The process that loads a compiler once and forks copies of itself that build.

    python -m cuprof.builds.origin SOCKET FOLDER

An order is a folder and a connection. The copy forks the process that compiles what comes on the connection, says there
how that has ended, and ends it where the owner closes the connection first. What it answers is JSON and an image, since
the code of a kernel's file may have written it. None of them touches a device.
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
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from cuprof.builds.compilers import ENDED, MADE, PRINTED, READY, REFUSED
from cuprof.builds.result import Built, encode
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError

LONGEST_ORDER = 4096
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
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    process = os.fork()
    if not process:
        _compile(Connection(connection.detach()), folder)
    waiting = select.poll()
    waiting.register(connection, select.POLLRDHUP)
    waiting.register(woken, select.POLLIN)
    waiting.poll()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)  # it may have no group of its own yet
    status = os.waitpid(process, 0)[1]
    signalled = signal.strsignal(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ""
    how = f"ended early ({signalled or f'exit code {os.WEXITSTATUS(status)}'})"
    with contextlib.suppress(OSError):
        Connection(connection.detach()).send_bytes(json.dumps({ENDED: how}).encode())
    os._exit(0)


def _compile(connection: Connection, folder: Path) -> NoReturn:
    """Carry out the orders that come; temporary files of compilers stay in the folder, and the owner removes it."""
    own = os.getpid()
    os.setpgid(0, 0)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, *ENDINGS):  # compilers wait for assemblers
        signal.signal(number, signal.SIG_DFL)
    printed = os.open(folder / PRINTED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    with contextlib.suppress(EOFError, OSError):  # the owner has all that it wants
        while order := connection.recv_bytes():
            os.ftruncate(printed, 0)
            answer, image = _build(order)
            if os.getpid() != own:  # a copy that a kernel's file has made of this process
                break
            connection.send_bytes(json.dumps(answer).encode())
            if image is not None:
                connection.send_bytes(image)
    os._exit(0)  # taking the interpreter down would cost as much as a small build


def _build(order: bytes) -> tuple[dict[str, Any], bytes | None]:
    """Return the answer to an order, and the image, if one is made."""
    try:
        built: Built = pickle.loads(order).run()
        return {MADE: encode(built).decode()}, built.image
    except ImpossibleError as error:
        refused = ["ImpossibleError", str(error)]
    except MissingDependencyError as error:
        refused = ["MissingDependencyError", error.what, error.remedy]
    except BuildError as error:
        refused = ["BuildError", str(error), error.log]
    except BaseException as error:  # a process border: whatever the code of a kernel's file raises is its own fault
        from cuprof.families.trace import describe

        refused = ["BuildError", describe(error), traceback.format_exc()]
    return {REFUSED: refused}, None


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
