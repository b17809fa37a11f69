"""The process that loads a compiler once and forks a copy of itself for each build.

    python -m cuprof.builds.origin SOCKET FOLDER

Neither it nor what it forks touches a device. Whatever they print goes to a file. A build's answer is a line of JSON,
since the code of a kernel's file may have written it.
"""

from __future__ import annotations

import base64
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
from typing import Any, NoReturn

from cuprof.builds.compilers import PRINTED, READY
from cuprof.builds.result import Build
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError

ORDER_BYTES, WAKING_BYTES = 4096, 4096
ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal, or the end of a command, sends to all its processes."""


class Forks:
    """The processes that compile, each in a process group of its own, by process id."""

    def __init__(self) -> None:
        self.connections: dict[int, socket.socket] = {}

    def reap(self) -> None:
        """Forget those that have ended: end what they started, and answer how they ended where they have not."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if connection := self.connections.pop(ended.si_pid, None):
                    _end_group(ended.si_pid)
                    by_itself = ended.si_code == os.CLD_EXITED
                    how = f"exit code {ended.si_status}" if by_itself else signal.strsignal(ended.si_status)
                    _answer_end(connection, f"ended early ({how})")
                os.waitpid(ended.si_pid, 0)

    def end(self) -> None:
        """End all of them."""
        for process in self.connections:
            _end_group(process)


def serve(orders: socket.socket) -> None:
    """Fork a process for each order until the owner closes its end, then end those that are left."""
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ending in ENDINGS:
        signal.signal(ending, lambda *_: sys.exit(1))
    forks = Forks()
    try:
        while True:
            ready = select.select([orders, woken], [], [])[0]
            if woken in ready:
                woken.recv(WAKING_BYTES)
                forks.reap()
            if orders not in ready:
                continue
            folder, handles, _, _ = socket.recv_fds(orders, ORDER_BYTES, 1)
            if not folder:
                return
            if not handles:  # no more files can be opened
                continue
            connection = socket.socket(fileno=handles[0])
            try:
                process = os.fork()
            except OSError as error:
                _answer_end(connection, f"could not be forked ({error.strerror})")
                continue
            if not process:
                for other in (orders, woken, wake, *forks.connections.values()):
                    other.close()
                forks.connections.clear()
                _compile(connection, Path(os.fsdecode(folder)))
            forks.connections[process] = connection
    finally:
        forks.end()


def _compile(connection: socket.socket, folder: Path) -> NoReturn:
    """Answer one build; temporary files of compilers stay in the folder, which the owner removes."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    own = os.getpid()
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, *ENDINGS):  # compilers wait for assemblers
        signal.signal(number, signal.SIG_DFL)
    _print_to(folder / PRINTED)
    with connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps({"process": own}).encode() + b"\n")
        stream.flush()
        answer = _run(pickle.load(stream))
        if os.getpid() != own:  # a copy that a kernel's file has made of this process
            os._exit(0)
        stream.write(json.dumps(answer).encode() + b"\n")
    os._exit(0)  # taking the interpreter down would cost as much as a small build


def _run(build: Build) -> dict[str, Any]:
    try:
        built = build.run()
    except ImpossibleError as error:
        return {"impossible": str(error)}
    except MissingDependencyError as error:
        return {"missing": [error.what, error.remedy]}
    except BuildError as error:
        return {"refused": {"message": str(error), "log": error.log}}
    except BaseException as error:  # a process border: whatever the code of a kernel's file raises is its own fault
        from cuprof.families.trace import describe

        return {"refused": {"message": describe(error), "log": traceback.format_exc()}}
    return {"image": base64.b64encode(built.image).decode(), **built.facts()}


def _print_to(file: Path) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _end_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _answer_end(connection: socket.socket, how: str) -> None:
    """Tell the reader that no answer will come, even if other processes hold this end of the connection."""
    with connection, contextlib.suppress(OSError):
        connection.send(json.dumps({"ended": how}).encode() + b"\n", socket.MSG_DONTWAIT)
        connection.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Load what the folder's file names, say so, and serve."""
    orders, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    pickle.loads((folder / "preload").read_bytes()).load(folder)
    orders.send(READY)
    serve(orders)


if __name__ == "__main__":
    main()
