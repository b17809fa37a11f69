"""The stranger's process; see `cuprof.judge.border.inside`.

python -m cuprof.judge.border SOCKET MEMORY ENGINE_PID FOLDER [SANDBOX]
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from cuprof.core.processes import guard
from cuprof.sandbox.confinement import confine
from cuprof.sandbox.settings import Sandbox


def main(words: list[str]) -> None:
    """Serve under a guardian, and in a sandbox where one is given; see the words above."""
    handle, memory, engine, folder = int(words[0]), int(words[1]), int(words[2]), Path(words[3])
    guard(engine, folder, close=(handle,))
    if words[4:]:
        confine(Sandbox.decode(words[4]), close=(handle,))
    sys.dont_write_bytecode = True
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # wakes up without taking the processor of who wakes it
    from cuprof.judge.border.inside import serve  # after the forks, which stay small

    with socket.socket(fileno=handle) as pipe:
        serve(pipe, memory)


if __name__ == "__main__":
    main(sys.argv[1:])
