"""The worker process; see `cuprof.worker.server`.

python -m cuprof.worker PIPE_FD STATUS_FILE ENGINE_PID [SANDBOX]
"""

from __future__ import annotations

import sys
from pathlib import Path

from cuprof.core.processes import guard
from cuprof.sandbox.confinement import confine
from cuprof.sandbox.settings import Sandbox


def main(arguments: list[str]) -> int:
    """Run the worker under a guardian, and in a sandbox where one is given; see the words above."""
    handle, status, engine = int(arguments[0]), Path(arguments[1]), int(arguments[2])
    guard(engine, status.parent, close=(handle,))
    if arguments[3:]:
        confine(Sandbox.decode(arguments[3]), close=(handle,))
    from cuprof.worker.server import serve  # after the fork: the guardian stays small

    return serve(handle, status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
