"""The worker process; see `cuprof.worker.service`.

python -m cuprof.worker PIPE_FD STATUS_FILE ENGINE_PID
"""

from __future__ import annotations

import sys
from pathlib import Path

from cuprof.guardian import guard


def main(arguments: list[str]) -> int:
    """Run the worker under a guardian; arguments are the pipe's file descriptor, the status file, the engine's pid."""
    handle, status, engine = int(arguments[0]), Path(arguments[1]), int(arguments[2])
    guard(engine, status.parent, close=(handle,))
    from cuprof.worker.service import serve  # after the fork: the guardian stays small

    return serve(handle, status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
