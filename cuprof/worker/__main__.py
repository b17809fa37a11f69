"""The worker process; see `cuprof.worker.server`.

python -m cuprof.worker PIPE_FD STATUS_FILE ENGINE_PID [SANDBOX]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

from cuprof.core.processes import ALONE, AT_ONCE, AWAITED, guard, leave_checkout
from cuprof.sandbox.confinement import confine
from cuprof.sandbox.settings import Sandbox


def main(arguments: list[str]) -> int:
    """Run the worker under a guardian, and in a sandbox where one is given; see the words above."""
    handle, status, engine = int(arguments[0]), Path(arguments[1]), int(arguments[2])
    if arguments[3:] or ALONE in os.environ:
        leave_checkout()
    if arguments[3:]:
        _import_first()
    guard(engine, status.parent, close=(handle,))
    if arguments[3:]:
        confine(Sandbox.read(arguments[3]), close=(handle,))
    if "cupy" in os.environ.get(AT_ONCE, "").split(","):
        Thread(target=_start_driver, daemon=True).start()
    from cuprof.worker.server import serve  # after the fork: the guardian stays small

    return serve(handle, status)


def _import_first() -> None:
    """Import what the worker needs before it is confined: files are slower to open in its namespace.

    A module may start threads. They never get the signals that the guardian waits for, and do not live in its child.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    from cuprof.worker.server import import_at_once

    import_at_once()


def _start_driver() -> None:
    """Start CUDA's driver, which takes an eighth of a second; what it refuses, it says again at its first use."""
    with suppress(OSError):  # there is none
        ctypes.CDLL("libcuda.so.1").cuInit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
