"""The fork server, from which all strangers' processes come; see `cuprof.judge.border.fork_server`.

python -m cuprof.judge.border SOCKET ENGINE_PID
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from cuprof.core.processes import MARK, PR_SET_PDEATHSIG, guard, import_ahead, leave_checkout
from cuprof.judge.border.inside import serve
from cuprof.sandbox.confinement import confine
from cuprof.sandbox.settings import Sandbox

MOST_REQUEST = 1 << 20
_LIBC = ctypes.CDLL(None)
_LIBC.getenv.restype = ctypes.c_void_p


def main(words: list[str]) -> None:
    """Fork a process for each request until the engine closes the socket; a forked one returns from here at its end."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    control, mark = socket.socket(fileno=int(words[0])), _LIBC.getenv(MARK.encode())
    server = os.getpid()  # asked before any fork: the parent of one whose server was killed meanwhile is another
    if os.getppid() != int(words[1]):
        return
    sys.dont_write_bytecode = True
    leave_checkout()
    while True:
        data, handles, _, _ = socket.recv_fds(control, MOST_REQUEST, 3)
        if not data:
            return
        request = json.loads(data)
        if isinstance(request, list):
            import_ahead(*request)
            continue
        if isinstance(request, int):  # it has ended
            answer = os.waitpid(request, 0)[1]
        elif not (answer := _fork()):
            control.close()
            _become(server, request, handles, mark)
            return
        for handle in handles:
            os.close(handle)
        control.send(json.dumps(answer).encode())


def _fork() -> int:
    """Fork; return also the negative number of the error if the system refuses it."""
    try:
        return os.fork()
    except OSError as error:
        return -(error.errno or errno.EAGAIN)


def _become(server: int, request: dict[str, Any], handles: list[int], mark: int) -> None:
    """Be a stranger's process, under a guardian and, where one is given, in a sandbox."""
    log, pipe, *memory = handles
    os.setsid()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    folder = request["environment"][MARK].encode()
    ctypes.memmove(mark, folder, len(folder))  # what /proc shows of the environment is that of the server
    guard(server, Path(os.fsdecode(folder)), close=(pipe,))
    if request["sandbox"]:
        confine(Sandbox.read(request["sandbox"]), close=(pipe,))
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # wakes up without taking the processor of who wakes it
    with socket.socket(fileno=pipe) as connection:
        serve(connection, *memory)


if __name__ == "__main__":
    main(sys.argv[1:])
